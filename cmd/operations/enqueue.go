package operations

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

const (
	// recordPatience is how long a job of a batch is recorded again: over a restart
	// of Redis, or one that does not answer for a while.
	recordPatience = 10 * time.Second
	// cancelPatience leaves a server that stops, for which there are 10 s, those 3 s
	// that a call of Redis under way may take.
	cancelPatience = 5 * time.Second
)

// Enqueue records a job as queued and publishes its message. While Redis is away it
// records it again, for as long as patience. A job whose message does not leave is
// canceled; the error says so when that fails, too.
func Enqueue(ctx context.Context, st *status.Store, publish func(context.Context, jobs.Job) (string, error), job jobs.Job, patience time.Duration) error {
	err := again(ctx, patience, func() error { _, err := st.Submit(ctx, job); return err })
	if err == nil {
		_, err = publish(ctx, job)
	}
	if err == nil {
		return nil
	}
	// Without a message nobody will ever run it: say so to whoever looks. Redis may
	// have recorded it also when its answer did not come.
	last, cancel := atMost(context.WithoutCancel(ctx), cancelPatience)
	defer cancel()
	canceled := again(last, min(patience, cancelPatience), func() error { _, err := st.Cancel(last, job.ID); return err })
	if errors.Is(canceled, jobs.ErrUnavailable) && !unheard(err) {
		return fmt.Errorf("%w; it may stay queued without a message: %w", err, canceled)
	}
	return err
}

// unheard reports whether err says that Redis was not reached, so that it cannot
// have done what it was asked.
func unheard(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// again calls Redis until it answers, but not anew once patience is over. The error
// is that of the last call.
func again(ctx context.Context, patience time.Duration, call func() error) error {
	begun := time.Now()
	for {
		err := call()
		if !errors.Is(err, jobs.ErrUnavailable) || time.Since(begun) >= patience || jobs.Sleep(ctx, time.Second/2) != nil {
			return err
		}
	}
}

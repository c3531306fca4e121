package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// cancelTimeout leaves a server that stops, for which there are 10 s, those 3 s that a
// call of Redis under way may take.
const cancelTimeout = 5 * time.Second

// Submit records a job as queued and publishes its message. While Redis is away it
// records it again, for as long as retry says. A job whose message does not leave is
// canceled; the error says so when that fails, too.
func Submit(ctx context.Context, st *status.Store, publish func(context.Context, jobs.Job) (string, error), job jobs.Job, retry time.Duration) error {
	err := retryFor(ctx, retry, func() error { _, err := st.Submit(ctx, job); return err })
	if err == nil {
		_, err = publish(ctx, job)
	}
	if err == nil {
		return nil
	}
	// Without a message nobody will ever run it: say so to whoever looks. Redis may
	// have recorded it also when its answer did not come.
	last, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), cancelTimeout, fmt.Errorf("no answer within %s: %w", cancelTimeout, jobs.ErrUnavailable))
	defer cancel()
	canceled := retryFor(last, min(retry, cancelTimeout), func() error { _, err := st.Cancel(last, job.ID); return err })
	if errors.Is(canceled, jobs.ErrUnavailable) && !neverReached(err) {
		return fmt.Errorf("%w; it may stay queued without a message: %w", err, canceled)
	}
	return err
}

// neverReached reports whether err says that Redis was not reached, so that it cannot
// have done what it was asked.
func neverReached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// retryFor calls Redis until it answers, but not again once retry is over. The error
// is that of the last call.
func retryFor(ctx context.Context, retry time.Duration, call func() error) error {
	begun := time.Now()
	for {
		err := call()
		if !errors.Is(err, jobs.ErrUnavailable) || time.Since(begun) >= retry || jobs.Sleep(ctx, time.Second/2) != nil {
			return err
		}
	}
}

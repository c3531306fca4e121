package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/retry"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/trace"
)

// cancelTimeout is for a server that stops, which has 10 s in all: a call of Redis that
// is under way may take 3 s of them.
const cancelTimeout = 5 * time.Second

// ErrMayBeQueued is wrapped by the error for a job that may be recorded as queued although it has no message: its
// input must stay, because workers publish such jobs after a while.
var ErrMayBeQueued = errors.New("it may stay queued without a message")

// Submit records a job as queued and publishes its message. While Redis is away it
// retries for as long as patience. A job that no message can carry is not recorded. If the message cannot be published, the job is
// canceled; the error tells when that fails, too. The message of a job that is not to start yet is published
// by others, once it is due: see [status.Store.Promote].
func Submit(ctx context.Context, st *status.Store, publish func(context.Context, jobs.Job) (string, error), job jobs.Job, patience time.Duration) error {
	if err := checkJob(job); err != nil {
		return fmt.Errorf("submit %w", err)
	}
	ctx, span, job := submitSpan(ctx, job)
	err := submit(ctx, st, publish, job, patience)
	span.EndWith(err)
	return err
}

func submit(ctx context.Context, st *status.Store, publish Publish, job jobs.Job, patience time.Duration) error {
	err := retryFor(ctx, patience, func() error { _, err := st.Submit(ctx, job); return err })
	if err == nil && !later(job) {
		_, err = publish(ctx, job)
	}
	if err == nil {
		return nil
	}
	return withdraw(ctx, st, job, patience, err)
}

// later reports whether a job is not to start yet.
func later(job jobs.Job) bool { return job.NotBefore.After(time.Now()) }

// submitSpan begins the span of a job's submission, below that of the request it came with. The job gets it as its trace.
func submitSpan(ctx context.Context, job jobs.Job) (context.Context, *trace.Span, jobs.Job) {
	ctx, span := trace.Start(trace.With(ctx, job.Trace), "submit", trace.Producer)
	if traceparent := trace.Of(ctx); traceparent != "" {
		job.Trace = traceparent
	}
	span.Set("batchfleet.job.id", string(job.ID))
	span.Set("batchfleet.job.kind", string(job.Kind))
	return ctx, span, job
}

// withdraw cancels a job that has no message, because of err, and returns that.
func withdraw(ctx context.Context, st *status.Store, job jobs.Job, patience time.Duration, err error) error {
	// Without a message the job never runs, so it must not be shown as queued. Redis
	// may have recorded it even though no answer came.
	last, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), cancelTimeout, fmt.Errorf("no answer within %s: %w", cancelTimeout, jobs.ErrUnavailable))
	defer cancel()
	canceled := retryFor(last, min(patience, cancelTimeout), func() error { _, err := st.Cancel(last, job.ID); return err })
	if errors.Is(canceled, jobs.ErrUnavailable) && !neverReached(err) {
		return fmt.Errorf("%w; %w: %w", err, ErrMayBeQueued, canceled)
	}
	return err
}

// neverReached reports whether err says that Redis was not reached, so that it cannot
// have done what it was asked.
func neverReached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// callRetry is how long to wait before each retry.
var callRetry = retry.Policy{First: time.Second / 2, Max: time.Second}

// retryFor calls a service until it answers. The last call begins when patience ends, and
// its error is returned.
func retryFor(ctx context.Context, patience time.Duration, call func() error) error {
	begun := time.Now()
	for wait := callRetry.Delays(); ; {
		err := call()
		left := patience - time.Since(begun)
		if !errors.Is(err, jobs.ErrUnavailable) || left <= 0 || jobs.Sleep(ctx, min(wait.Next(), left)) != nil {
			return err
		}
	}
}

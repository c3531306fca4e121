package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/retry"
)

const (
	// callTimeout bounds one call to the status store or the source.
	callTimeout = 5 * time.Second
	// finalCallTimeout bounds the calls of a worker that has run out of time. Cloud Run
	// kills a container 2 s after the default drain time.
	finalCallTimeout = 1500 * time.Millisecond
	// settleEvery is the longest pause between two tries to record an outcome. While an
	// outcome is being recorded nothing extends the claim. After Redis is back, others
	// leave lapsed claims alone for calmFor, so the next try must come sooner.
	settleEvery = 5 * time.Second
)

// record puts the outcome on record. It returns the state that is there: another one if the
// job had ended before, and Queued if the attempt has failed and is to be made again.
func (a *attempt) record(ctx context.Context, o jobs.Outcome) (recorded jobs.State, err error) {
	write := a.Status.Finish
	if o.Retry {
		write = a.Status.Retry
	} else if a.progress != nil || len(a.lines.Text) > 0 {
		write = func(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
			return a.Status.(LastReporter).FinishLast(ctx, c, o, a.progress, a.lines)
		}
	}
	err = a.retry(ctx, "record the outcome", callTimeout, a.Metrics.statusRetries, func(call context.Context) (err error) {
		recorded, err = write(call, a.claim, o)
		return err
	})
	if err == nil && a.progress != nil {
		a.Metrics.progressWritten.Inc()
	}
	return recorded, err
}

// retryLater hands back the lease of a job whose attempt has failed and is to be made again.
// That is on record, so whoever gets the job too early learns how long it has to wait.
func (a *attempt) retryLater(ctx context.Context, o jobs.Outcome) {
	job := a.lease.Job
	a.Metrics.retries.WithLabelValues(string(job.Kind)).Inc()
	a.Log.InfoContext(ctx, "attempt failed, the job runs again", "job", job.ID, "kind", job.Kind, "attempt", a.claim.Attempt,
		"failures", a.claim.Failures+1, "retry_in", o.RetryAfter, "code", o.Code, "reason", o.Reason)
	a.release()
	a.nack(ctx, a.lease, o.RetryAfter)
}

// end acks a job whose outcome is on record. If the job has failed, for the given reason,
// its dead letter is added first: an ack means that nothing is left to do. On an error
// nothing was acked.
func (a *attempt) end(ctx context.Context, state jobs.State, reason string) error {
	if state == jobs.Failed {
		if err := a.deadLetter(ctx, DeadLetterInfo{Cause: CauseFailed, Reason: reason, Attempt: a.claim.Attempt}); err != nil {
			return err
		}
	}
	a.release()
	a.ack(ctx, a.lease)
	return nil
}

// retry makes a call, of at most limit, until it works: while the other side is
// away the lease is kept, for SettleTimeout at most.
func (a *attempt) retry(ctx context.Context, what string, limit time.Duration, retries prometheus.Counter, call func(context.Context) error) error {
	policy := retry.Policy{First: callRetry.First, Max: settleEvery, For: a.SettleTimeout, Retrying: func(err error, wait time.Duration) {
		a.Log.WarnContext(ctx, "cannot "+what+", trying again", "job", a.lease.Job.ID, "retry_in", wait, "err", err)
	}}
	// When ctx ends, the next attempt of the job continues from what is on record.
	return policy.Do(ctx, func() error {
		if a.left() == 0 {
			return retry.Permanent(fmt.Errorf("%s: %w: it ended before", what, jobs.ErrLeaseLost))
		}
		err := a.callDetached(ctx, limit, call)
		if errors.Is(err, jobs.ErrLeaseLost) {
			return retry.Permanent(err)
		}
		if err != nil && ctx.Err() == nil {
			a.readiness.fail(err)
			retries.Inc()
		}
		return err
	})
}

// callDetached makes one call, of at most limit, that must be tried even when ctx has
// ended.
func (w *Worker) callDetached(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	if ctx.Err() != nil {
		limit = finalCallTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return call(ctx)
}

// ack ends a lease for good. A failed ack costs a redelivery, which finds the
// outcome on record and acks again.
func (w *Worker) ack(ctx context.Context, lease jobs.Lease) {
	ack := func(call context.Context) error { return w.Source.Ack(call, lease) }
	err := w.callDetached(ctx, callTimeout, ack)
	if err != nil && ctx.Err() == nil {
		err = w.callDetached(ctx, callTimeout, ack)
	}
	if err != nil {
		w.Metrics.ackErrors.Inc()
		w.Log.WarnContext(ctx, "cannot ack, the job will be delivered again and acked then", "job", lease.Job.ID, "err", err)
	}
}

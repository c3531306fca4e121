package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// record puts the outcome on record. It returns the state that is there, which
// is another one if the job had ended before.
func (a *attempt) record(ctx context.Context, o jobs.Outcome) (recorded jobs.State, err error) {
	err = a.retry(ctx, "record the outcome", callTimeout, a.Metrics.statusRetries, func(call context.Context) (err error) {
		recorded, err = a.Status.Finish(call, a.claim, o)
		return err
	})
	return recorded, err
}

// end acks a job whose outcome is on record; one that has failed, for the given
// reason, goes to the dead letters first. The order is the promise: an ack says that nothing is
// left to do. An error says that nothing was acked.
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
	policy := retry.Policy{First: again.First, Max: settleEvery, For: a.SettleTimeout, Retrying: func(err error, wait time.Duration) {
		a.Log.WarnContext(ctx, "cannot "+what+", trying again", "job", a.lease.Job.ID, "retry_in", wait, "err", err)
	}}
	// When ctx ends, whoever gets the job next finds how far it came and goes on from there.
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

// giveUp hands a lease back unacked, because of err, so that the job is delivered
// again. A lost lease is left alone: it is not ours to hand back.
func (a *attempt) giveUp(ctx context.Context, err error) {
	reason, message, delay := "unavailable", "Interrupted; waiting for another try...", handBackDelay()
	switch {
	case errors.Is(err, jobs.ErrLeaseLost):
		reason, message = "lease_lost", ""
	case errors.Is(err, jobs.ErrDrained):
		reason, message, delay = "drained", "Worker stopped; waiting for another worker", 0
	default:
		a.readiness.fail(err)
	}
	a.Log.WarnContext(ctx, "job handed back", "job", a.lease.Job.ID, "delivery", a.lease.Delivery, "err", err)
	a.Metrics.handedBack.WithLabelValues(reason).Inc()
	if a.claim.Token != "" {
		// Also when the answer to the claim was lost: it may have been granted.
		a.giveBack(ctx, message)
	}
	a.release()
	if message != "" {
		a.nack(ctx, a.lease, delay)
	}
}

// giveBack gives the claim back. One that cannot be given back runs out by itself;
// the start then counts as a crash until Redis is told, later, that it was none.
func (a *attempt) giveBack(ctx context.Context, message string) {
	release := func(call context.Context) error { return a.Status.Release(call, a.claim, message) }
	err := a.callDetached(ctx, callTimeout, func(call context.Context) error {
		for {
			err := release(call)
			if ctx.Err() == nil || err == nil || errors.Is(err, jobs.ErrLeaseLost) || jobs.Sleep(call, payEvery/10) != nil {
				return err
			}
			// The attempt's context has ended: retry only for as long as this call may take.
		}
	})
	if err == nil || errors.Is(err, jobs.ErrLeaseLost) {
		return
	}
	a.Log.WarnContext(ctx, "cannot give the claim back", "job", a.lease.Job.ID, "err", err)
	if a.Claims != nil {
		a.owed.add(a.claim, message)
	}
}

// handBackDelay keeps a job from coming straight back to a worker that cannot
// run it now: 30 to 60 s, at random so that a fleet's jobs spread out.
func handBackDelay() time.Duration { return 30*time.Second + rand.N(30*time.Second) }

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
	err := w.callDetached(ctx, callTimeout, func(call context.Context) error { return w.Source.Ack(call, lease) })
	if err != nil && ctx.Err() == nil {
		err = w.callDetached(ctx, callTimeout, func(call context.Context) error { return w.Source.Ack(call, lease) })
	}
	if err != nil {
		w.Metrics.ackErrors.Inc()
		w.Log.WarnContext(ctx, "cannot ack, the job will be delivered again and acked then", "job", lease.Job.ID, "err", err)
	}
}

// nack hands a lease back. A failed nack costs the rest of the lease's time.
func (w *Worker) nack(ctx context.Context, lease jobs.Lease, delay time.Duration) {
	err := w.callDetached(ctx, callTimeout, func(call context.Context) error { return w.Source.Nack(call, lease, delay) })
	if err != nil {
		w.Metrics.ackErrors.Inc()
		w.Log.WarnContext(ctx, "cannot hand the lease back, it will run out", "job", lease.Job.ID, "err", err)
	}
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

const (
	// callTimeout bounds one call to the status store or the source.
	callTimeout = 5 * time.Second
	// lastWord bounds the calls of a worker that has run out of time. Cloud Run
	// kills a container 2 s after the default drain time.
	lastWord = 1500 * time.Millisecond
)

// settle records the outcome and then acks. The order is the promise: an ack
// says that the outcome is on record. While the status store is away the lease
// is kept, for SettleTimeout at most. It returns the state on record, which is
// another one if the job had ended before. An error says that no outcome is on
// record, and nothing was acked.
func (a *attempt) settle(ctx context.Context, o jobs.Outcome) (recorded jobs.State, err error) {
	deadline := time.Now().Add(a.SettleTimeout)
	for wait := leaseBackoff(); ; {
		if a.left() == 0 {
			return 0, fmt.Errorf("%w: it ended before the outcome was recorded", jobs.ErrLeaseLost)
		}
		err := a.say(ctx, func(call context.Context) (err error) {
			recorded, err = a.Status.Finish(call, a.claim, o)
			return err
		})
		if err == nil {
			a.release()
			a.ack(ctx, a.lease)
			return recorded, nil
		}
		if errors.Is(err, jobs.ErrLeaseLost) {
			return 0, err
		}
		if ctx.Err() != nil {
			// Whoever gets the job next finds its result and records it.
			return 0, context.Cause(ctx)
		}
		a.gate.fail(err)
		a.Metrics.statusRetries.Inc()
		delay := wait.NextBackOff()
		if time.Now().Add(delay).After(deadline) {
			return 0, err
		}
		a.Log.WarnContext(ctx, "cannot record the outcome, trying again", "job", a.lease.Job.ID, "retry_in", delay, "err", err)
		if err := sleep(ctx, delay); err != nil {
			return 0, err
		}
	}
}

// giveUp ends a lease without an outcome, because of err, so that the job runs
// again. A lost lease is left alone: it is not ours to hand back.
func (a *attempt) giveUp(ctx context.Context, err error) {
	reason, message, delay := "unavailable", "Interrupted; waiting for another try...", handBackDelay()
	switch {
	case errors.Is(err, jobs.ErrLeaseLost):
		reason, message = "lease_lost", ""
	case errors.Is(err, jobs.ErrDrained):
		reason, message, delay = "drained", "Worker stopped; waiting for another worker", 0
	default:
		a.gate.fail(err)
	}
	a.Log.WarnContext(ctx, "job handed back", "job", a.lease.Job.ID, "delivery", a.lease.Delivery, "err", err)
	a.Metrics.handedBack.WithLabelValues(reason).Inc()
	if a.claim.Token != "" {
		// Also when the answer to the claim was lost: it may have been granted.
		// One that cannot be given back runs out by itself; the start then counts
		// as a crash.
		err := a.say(ctx, func(call context.Context) error { return a.Status.Release(call, a.claim, message) })
		if err != nil && !errors.Is(err, jobs.ErrLeaseLost) {
			a.Log.WarnContext(ctx, "cannot give the claim back", "job", a.lease.Job.ID, "err", err)
		}
	}
	a.release()
	if message != "" {
		a.nack(ctx, a.lease, delay)
	}
}

// handBackDelay keeps a job from coming straight back to a worker that cannot
// run it now: 30 to 60 s, at random so that a fleet's jobs spread out.
func handBackDelay() time.Duration { return 30*time.Second + rand.N(30*time.Second) }

// say makes one call that must be tried even when ctx has ended.
func (w *Worker) say(ctx context.Context, call func(context.Context) error) error {
	limit := callTimeout
	if ctx.Err() != nil {
		limit = lastWord
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return call(ctx)
}

// ack ends a lease for good. A failed ack costs a redelivery, which finds the
// outcome on record and acks again.
func (w *Worker) ack(ctx context.Context, lease jobs.Lease) {
	err := w.say(ctx, func(call context.Context) error { return w.Source.Ack(call, lease) })
	if err != nil && ctx.Err() == nil {
		err = w.say(ctx, func(call context.Context) error { return w.Source.Ack(call, lease) })
	}
	if err != nil {
		w.Metrics.ackErrors.Inc()
		w.Log.WarnContext(ctx, "cannot ack, the job will be delivered again and acked then", "job", lease.Job.ID, "err", err)
	}
}

// nack hands a lease back. A failed nack costs the rest of the lease's time.
func (w *Worker) nack(ctx context.Context, lease jobs.Lease, delay time.Duration) {
	err := w.say(ctx, func(call context.Context) error { return w.Source.Nack(call, lease, delay) })
	if err != nil {
		w.Metrics.ackErrors.Inc()
		w.Log.WarnContext(ctx, "cannot hand the lease back, it will run out", "job", lease.Job.ID, "err", err)
	}
}

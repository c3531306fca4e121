package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/trace"
)

// handBack hands a lease back unacked, because of err, so that the job is delivered
// again. A lost lease is not handed back: it is another worker's.
func (a *attempt) handBack(ctx context.Context, err error) {
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
		// Also when the reply to the claim was lost: it may have been granted.
		a.releaseClaim(ctx, message)
	}
	a.release()
	if message != "" {
		a.nack(ctx, a.lease, delay)
	}
}

// releaseClaim gives the claim back. One that cannot be given back runs out by itself;
// the start then counts as a crash until Redis is told, later, that it was none.
func (a *attempt) releaseClaim(ctx context.Context, message string) {
	err := a.callDetached(ctx, callTimeout, func(call context.Context) error {
		for {
			err := a.Status.Release(call, a.claim, message)
			if ctx.Err() == nil || err == nil || errors.Is(err, jobs.ErrLeaseLost) || jobs.Sleep(call, releaseEvery/10) != nil {
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
		a.unreleased.add(a.claim, message, trace.Of(ctx))
	}
}

// handBackDelay keeps a job from coming straight back to a worker that cannot
// run it now: 30 to 60 s, at random so that a fleet's jobs spread out.
func handBackDelay() time.Duration { return 30*time.Second + rand.N(30*time.Second) }

// nack hands a lease back. If that fails, the job waits until the lease ends.
func (w *Worker) nack(ctx context.Context, lease jobs.Lease, delay time.Duration) {
	err := w.callDetached(ctx, callTimeout, func(call context.Context) error { return w.Source.Nack(call, lease, delay) })
	if err != nil {
		w.Metrics.ackErrors.Inc()
		w.Log.WarnContext(ctx, "cannot hand the lease back, it will run out", "job", lease.Job.ID, "err", err)
	}
}

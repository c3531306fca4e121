package control

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

func (c *Control) lease(w http.ResponseWriter, r *http.Request) error {
	var (
		body gateway.LeaseAsk
		want queue.LeaseAsk
		wait time.Duration
	)
	a, err := c.read(w, r, gateway.MaxSmallBody, &body, &body.WorkerID, func() (err error) {
		want, wait, err = leaseAsk(&body)
		return err
	})
	if err != nil {
		return err
	}
	g, turned, err := c.waitForJob(r.Context(), a.Caller, want, wait)
	if err != nil {
		return err
	}
	if g.Job == "" {
		c.Metrics.empty.Inc()
		if turned { // nobody waited: without a pause it would come back at once
			w.Header().Set("Retry-After", "5")
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	c.Metrics.leases.Inc()
	writeLease(w, leaseAnswer(g))
	return nil
}

// waitForJob leases a job, and waits for one if there is none: until the time is
// over, the server stops or the caller goes away, with an empty Grant then.
// It is turned away, without waiting, when too many wait already.
func (c *Control) waitForJob(ctx context.Context, caller queue.Caller, want queue.LeaseAsk, wait time.Duration) (g queue.Grant, turned bool, err error) {
	var (
		over  <-chan time.Time
		woken bool
	)
	for {
		seen := c.waiting.seen()
		g, err = c.tryLease(ctx, caller, want)
		if err != nil && woken && !errors.Is(err, jobs.ErrUnavailable) {
			c.waiting.wake(1) // the job is still there, for another
		}
		if err != nil || g.Job != "" || wait <= 0 {
			return g, false, err
		}
		if over == nil {
			t := time.NewTimer(wait)
			defer t.Stop()
			over = t.C
			defer timeWait(ctx)()
		}
		me, ok := c.waiting.join(seen, g.Worker)
		if !ok {
			return g, true, nil
		}
		select {
		case <-me.turn:
			if ctx.Err() != nil {
				c.waiting.wake(1) // it is somebody else's turn
				return g, false, nil
			}
			woken = true
			continue
		case <-ctx.Done():
		case <-httpd.Stopping(ctx):
		case <-over:
		}
		c.waiting.leave(me)
		return g, false, nil
	}
}

// tryLease leases a job if there is one.
func (c *Control) tryLease(ctx context.Context, caller queue.Caller, want queue.LeaseAsk) (queue.Grant, error) {
	// A call that is broken off may have leased a job all the same, to nobody.
	call, cancel := c.deadline(context.WithoutCancel(ctx))
	defer cancel()
	g, err := c.Queue.Lease(call, caller, want)
	if err != nil {
		return g, err
	}
	if g.Job != "" && ctx.Err() != nil && want.RequestID == "" {
		// The caller has gone, and has no means to ask for this lease again.
		c.handBack(context.WithoutCancel(ctx), caller, g)
		return queue.Grant{}, nil
	}
	return g, nil
}

func (c *Control) handBack(ctx context.Context, caller queue.Caller, g queue.Grant) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	_, err := c.Queue.Fail(ctx, caller, g.Job, g.LeaseID, queue.Failure{
		Code: gateway.FailWorkerShutdown, Message: "the worker has gone before it got the job", Rerun: queue.Back,
	})
	if err != nil { // its lease will run out
		c.Log.WarnContext(ctx, "cannot hand back a lease that nobody got", "job", g.Job, "err", err)
		return
	}
	c.waiting.wake(1)
}

package control

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// forgetEvery is how often revoked tokens whose record has expired are dropped.
const forgetEvery = time.Hour

// Run takes back leases that are over, moves delayed jobs to the queue, and
// wakes waiting requests for jobs that came by another gateway, until ctx ends.
// Its first round comes one Period after it began: workers that could not reach
// a gateway for a while get this long to extend their leases.
func (c *Control) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { c.watch(ctx) })

	rounds, forget := time.NewTicker(cmp.Or(c.Period, 30*time.Second)), time.NewTicker(forgetEvery)
	defer rounds.Stop()
	defer forget.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-rounds.C:
			c.round(ctx)
		case <-forget.C:
			c.forget(ctx)
		}
	}
}

// round is one of the reaper. Trouble is logged; the next round tries again.
func (c *Control) round(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Period, 30*time.Second))
	defer cancel()
	reaped, err := c.Queue.Reap(ctx)
	for _, r := range reaped {
		c.Metrics.expiries.WithLabelValues(r.Became).Inc()
		c.Log.WarnContext(ctx, "lease taken back", "job", r.Job, "worker", r.Worker, "became", r.Became)
	}
	if err != nil {
		c.Log.ErrorContext(ctx, "cannot take back leases", "err", err)
		return
	}
	moved, err := c.Queue.Promote(ctx)
	if err != nil {
		c.Log.ErrorContext(ctx, "cannot queue delayed jobs", "err", err)
	}
	c.waiting.wake(moved)
}

func (c *Control) forget(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := c.Queue.ForgetRevoked(ctx); err != nil {
		c.Log.WarnContext(ctx, "cannot drop revoked tokens that have expired", "err", err)
	}
}

package control

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
)

// forgetEvery is how often revoked tokens whose record has expired are dropped.
const forgetEvery = time.Hour

// soon is the shortest pause between two rounds of the reaper.
const soon = 100 * time.Millisecond

// Run takes back leases that have ended, queues delayed jobs each second when they
// are due, drops expired jobs from the lists, and wakes waiting requests for jobs that came, and
// for running ones that were canceled, by another gateway, until ctx ends.
// Its first round comes one Period after it began: workers that could not reach
// a gateway for a while get this long to extend their leases. The next ones come
// when a lease has ended, and every Period at least. After this process or Redis
// has stood still, nothing is taken back for the time of a heartbeat.
func (c *Control) Run(ctx context.Context) {
	c.init()
	c.still.answered(time.Now(), c.heartbeatEvery())
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { c.pollJobs(ctx) })
	watching.Go(func() { c.pollCancels(ctx) })
	watching.Go(func() { c.pulse(ctx) })
	watching.Go(func() { c.watchRedis(ctx) })

	if jobs.Sleep(ctx, c.period()) == nil {
		c.rounds(ctx)
	}
}

// watchRedis logs what is wrong with Redis, and when that has changed, until ctx ends:
// what the server's operators change at run time shows nowhere else.
func (c *Control) watchRedis(ctx context.Context) {
	was := ""
	for {
		err := c.Queue.Check(ctx)
		if ctx.Err() != nil {
			return
		}
		now := ""
		switch {
		case errors.Is(err, jobs.ErrUnavailable) && !errors.Is(err, queue.ErrRefuses):
			if now = "away"; now != was {
				c.Log.WarnContext(ctx, "cannot reach Redis; answers 503 until it can", "err", err)
			}
		case err != nil:
			if now = err.Error(); now != was {
				c.Log.ErrorContext(ctx, "cannot work with this Redis", "err", err)
			}
		case was != "":
			c.Log.InfoContext(ctx, "can work with Redis again")
		}
		was = now
		if jobs.Sleep(ctx, cmp.Or(c.CheckEvery, 10*time.Second)) != nil {
			return
		}
	}
}

// rounds has the reaper work until ctx ends, at once first.
func (c *Control) rounds(ctx context.Context) {
	next, forget := time.NewTimer(0), time.NewTicker(forgetEvery)
	defer next.Stop()
	defer forget.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		case <-c.reapNow:
		case <-forget.C:
			c.forget(ctx)
			c.clean(ctx)
			continue
		}
		next.Reset(c.reap(ctx))
	}
}

// reap does one round of the reaper, unless workers must have the time for a
// heartbeat first, and returns when to call it again.
func (c *Control) reap(ctx context.Context) time.Duration {
	if wait := c.still.wait(time.Now(), c.heartbeatEvery()); wait > 0 {
		return wait
	}
	if !c.round(ctx) {
		return c.period()
	}
	return c.pause(ctx)
}

func (c *Control) period() time.Duration { return cmp.Or(c.Period, 30*time.Second) }

// pause returns how long the reaper may wait: until the lease that ends first is
// over, or one would be that is handed out now, but no longer than a Period. While
// the lists have more to drop it goes on soon: they must not grow faster than
// they are looked through.
func (c *Control) pause(ctx context.Context) time.Duration {
	if c.unlistMore {
		return soon
	}
	wait := min(c.period(), min(c.Queue.LeaseTTL, c.Queue.LegacyTTL)+c.Queue.Skew)
	end, err := c.Queue.NextEnd(ctx)
	if err == nil && !end.IsZero() { // otherwise the next round says what is wrong
		wait = min(wait, end.Add(c.Queue.Skew).Sub(c.Queue.Now()))
	}
	return max(soon, wait)
}

// round is one of the reaper. It reports whether it has looked at all leases;
// trouble is logged, and the next round tries again.
func (c *Control) round(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, c.period())
	defer cancel()
	reaped, err := c.Queue.Reap(ctx)
	for _, r := range reaped {
		c.Metrics.expiries.WithLabelValues(r.Became).Inc()
		c.Log.WarnContext(ctx, "lease taken back", "job", r.Job, "worker", r.Worker, "became", r.Became, "code", r.Code)
		switch r.Became {
		case "dead":
			c.logDeadLetter(ctx, r.Job, r.Code, r.Retries)
		case "queued":
			c.waiting.wake(r.Kind, 1)
		}
	}
	if err != nil {
		c.Log.ErrorContext(ctx, "cannot take back leases", "err", err)
		return false
	}
	var dropped int
	c.listed, dropped, err = c.Queue.Unlist(ctx, c.listed)
	c.unlistMore = err == nil && dropped > 0 && !c.listed.End()
	if err != nil {
		c.Log.WarnContext(ctx, "cannot drop expired jobs from the lists", "err", err)
	}
	return true
}

func (c *Control) forget(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := c.Queue.ForgetRevoked(ctx); err != nil {
		c.Log.WarnContext(ctx, "cannot drop revoked tokens that have expired", "err", err)
	}
	if err := c.Queue.FoldHours(ctx); err != nil {
		c.Log.WarnContext(ctx, "cannot add the jobs of hours that are over to the totals", "err", err)
	}
}

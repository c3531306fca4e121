package control

import (
	"cmp"
	"context"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// poll calls look every so often, as long as somebody waits in the list. What came by
// another gateway is found in this way. It logs the first of several errors that look
// returns, and returns when ctx ends.
func (c *Control) poll(ctx context.Context, list *waitlist, every time.Duration, what string, look func(context.Context) error) {
	well := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-list.arrived:
		}
		for list.len() > 0 {
			if jobs.Sleep(ctx, every) != nil {
				return
			}
			err := look(ctx)
			if err != nil && well && ctx.Err() == nil {
				c.Log.WarnContext(ctx, "cannot look for "+what, "err", err)
			}
			well = err == nil
		}
	}
}

// pollJobs wakes as many requests as there are jobs of their kinds: other gateways take jobs
// in, too, and queue delayed ones that are due.
func (c *Control) pollJobs(ctx context.Context) {
	c.poll(ctx, &c.waiting, cmp.Or(c.JobPollEvery, time.Second), "jobs", func(ctx context.Context) error {
		kinds, err := c.Queue.Runnable(ctx)
		most := c.waiting.len()
		for kind, n := range kinds {
			c.waiting.wake(kind, min(n, most))
		}
		return err
	})
}

// clockStep is by how much the clock of Redis may be set back without a request to
// cancel being missed.
const clockStep = time.Second

// pollCancels wakes the heartbeats of jobs that were canceled by another gateway.
func (c *Control) pollCancels(ctx context.Context) {
	since := int64(0)
	c.poll(ctx, &c.heartbeats, cmp.Or(c.CancelPollEvery, time.Second/2), "canceled jobs", func(ctx context.Context) error {
		ids, at, err := c.Queue.Cancels(ctx, since)
		if err != nil {
			return err
		}
		since = at - clockStep.Milliseconds()
		for _, id := range ids {
			c.heartbeats.wakeAll(string(id))
		}
		return nil
	})
}

// Cancel asks for a job to be stopped, as [queue.Queue.Cancel] does, and tells its
// worker at once if a heartbeat of that waits here.
func (c *Control) Cancel(ctx context.Context, id jobs.ID) (ended string, err error) {
	c.init()
	ended, err = c.Queue.Cancel(ctx, id)
	c.heartbeats.wakeAll(string(id)) // after an error, too: it may have been done all the same
	return ended, err
}

// Queued wakes the request that waits longest for a job of kind zpe: one was queued by other
// means than a request to this Control.
func (c *Control) Queued() { c.QueuedKind("") }

// QueuedKind is Queued for any kind.
func (c *Control) QueuedKind(kind jobs.Kind) {
	c.init()
	c.waiting.wake(plainKind(kind), 1)
}

package control

import (
	"context"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// heartbeatEvery is how often a worker extends its lease.
func (c *Control) heartbeatEvery() time.Duration { return c.Queue.LeaseTTL / 3 }

// pulse queues the delayed jobs that are due, each second until ctx ends. The
// reaper uses the time of the last success to tell whether workers could send
// heartbeats.
func (c *Control) pulse(ctx context.Context) {
	for well := true; ; {
		err := c.promote(ctx)
		if err != nil && well && ctx.Err() == nil {
			c.Log.ErrorContext(ctx, "cannot queue delayed jobs", "err", err)
		}
		well = err == nil
		if jobs.Sleep(ctx, max(time.Millisecond, min(time.Second, c.heartbeatEvery()/2))) != nil {
			return
		}
	}
}

func (c *Control) promote(ctx context.Context) error {
	call, cancel := c.deadline(ctx)
	defer cancel()
	moved, err := c.Queue.PromoteKinds(call)
	for kind, n := range moved {
		c.waiting.wake(kind, n)
	}
	if err != nil {
		return err
	}
	if stood := c.still.answered(time.Now(), c.heartbeatEvery()); stood > 0 {
		c.Log.WarnContext(ctx, "gateway or Redis was unresponsive; no lease is taken back until workers have had time to extend theirs", "stood", stood, "wait", c.heartbeatEvery())
	}
	return nil
}

// standstill knows when this gateway could last work with its Redis. While it could
// not, because its process was frozen or Redis was away, workers could not extend
// their leases: then nothing is taken back until each of them has had the time for
// a heartbeat. A shorter pause costs no lease that is extended.
type standstill struct {
	mu    sync.Mutex
	seen  time.Time // when Redis last answered; zero before Run
	until time.Time // nothing is taken back before
}

// answered notes that Redis has answered, and returns how long it had not, if that
// is longer than a heartbeat takes to come.
func (s *standstill) answered(now time.Time, heartbeat time.Duration) (stood time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stood = s.gap(now); stood <= heartbeat {
		stood = 0
	} else {
		s.until = now.Add(heartbeat)
	}
	s.seen = now
	return stood
}

// wait returns how long the reaper must wait, not positive when it need not.
func (s *standstill) wait(now time.Time, heartbeat time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gap(now) > heartbeat {
		return heartbeat // counted again from Redis's next answer
	}
	return s.until.Sub(now)
}

// gap is by the clock that goes on while the machine sleeps, too.
func (s *standstill) gap(now time.Time) time.Duration {
	if s.seen.IsZero() {
		return 0
	}
	return max(now.Sub(s.seen), now.Round(0).Sub(s.seen.Round(0)))
}

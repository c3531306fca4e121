package worker

import (
	"sync"
	"time"
)

// confirmation is when Redis last confirmed a claim of this worker, and for how long it
// holds: then others may take it. Its methods may be called concurrently.
type confirmation struct {
	mu   sync.Mutex
	when time.Time
	hold time.Duration // how long the claim holds from then on
}

// at records a confirmation: asked is when the request was sent, hold for how long it
// claimed the job.
func (c *confirmation) at(asked time.Time, hold time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.when, c.hold = asked, hold
}

// stale reports whether the confirmation is too old to rely on: two thirds of the time for
// which the claim holds have passed, at most 10 s.
func (c *confirmation) stale() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return between(c.when, time.Now()) >= c.hold*2/3
}

// since returns how long ago that was, by the monotonic or the wall clock, whichever
// is more.
func (c *confirmation) since() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return between(c.when, time.Now())
}

package worker

import (
	"sync"
	"time"
)

// confirmation is when a worker last heard from Redis that a claim is its own, and for
// how long: then others may take it. Its methods may be called concurrently.
type confirmation struct {
	mu   sync.Mutex
	when time.Time
	hold time.Duration // how long the claim holds from then on
}

// at takes note of a question that was answered with yes: asked is when it was put,
// hold for how long it claimed the job.
func (c *confirmation) at(asked time.Time, hold time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.when, c.hold = asked, hold
}

// stale reports whether the answer is too old to rely on: two thirds of the time for
// which the claim holds have passed, at most 10 s.
func (c *confirmation) stale() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return between(c.when, time.Now()) >= c.hold*2/3
}

// since returns how long ago that was, by the monotonic or the wall clock,
// whichever says more.
func (c *confirmation) since() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return between(c.when, time.Now())
}

package worker

import (
	"sync"
	"time"
)

// sure is when a worker last heard from Redis that a claim is its own. Others may
// take the claim once that was claimHold ago. Its methods may be called concurrently.
type sure struct {
	mu   sync.Mutex
	when time.Time
}

// at takes note of a question that was answered with yes: asked is when it was put.
func (s *sure) at(asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.when = asked
}

// since returns how long ago that was, by the monotonic or the wall clock,
// whichever says more.
func (s *sure) since() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return between(s.when, time.Now())
}

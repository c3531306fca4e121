package worker

import (
	"sync"
	"time"
)

// sure is when a worker last heard from Redis that a claim is its own, and for how
// long: then others may take it. Its methods may be called concurrently.
type sure struct {
	mu   sync.Mutex
	when time.Time
	hold time.Duration // how long the claim holds from then on
}

// at takes note of a question that was answered with yes: asked is when it was put,
// hold for how long it claimed the job.
func (s *sure) at(asked time.Time, hold time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.when, s.hold = asked, hold
}

// stale reports whether the answer is too old to rely on: two thirds of the time for
// which the claim holds have passed, at most 10 s.
func (s *sure) stale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return between(s.when, time.Now()) >= s.hold*2/3
}

// since returns how long ago that was, by the monotonic or the wall clock,
// whichever says more.
func (s *sure) since() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return between(s.when, time.Now())
}

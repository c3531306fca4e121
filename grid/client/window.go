package client

import (
	"context"
	"sync"
)

// window bounds the unfinished jobs, and the bytes of their requests. Callers get room in the order in which they wait.
type window struct {
	maxJobs, maxBytes int

	mu          sync.Mutex
	jobs, bytes int
	waiting     []*waiter
}

type waiter struct {
	size  int
	ready chan struct{}
}

// acquire waits for room for one job. The error is the cause of ctx, or ErrStopped when stopped is closed.
func (w *window) acquire(ctx context.Context, size int, stopped <-chan struct{}) error {
	w.mu.Lock()
	if len(w.waiting) == 0 && w.fits(size) {
		w.take(size)
		w.mu.Unlock()
		return nil
	}
	self := &waiter{size, make(chan struct{})}
	w.waiting = append(w.waiting, self)
	w.mu.Unlock()
	var err error
	select {
	case <-self.ready:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-stopped:
		err = ErrStopped
	}
	w.leave(self)
	return err
}

// leave stops waiting, or releases the room that was granted meanwhile.
func (w *window) leave(self *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, other := range w.waiting {
		if other == self {
			w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
			w.admit() // a large job may have blocked small ones
			return
		}
	}
	w.jobs--
	w.bytes -= self.size
	w.admit()
}

func (w *window) fits(size int) bool {
	return w.jobs == 0 || w.jobs < w.maxJobs && w.bytes+size <= w.maxBytes
}

func (w *window) take(size int) {
	w.jobs++
	w.bytes += size
}

func (w *window) release(size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs--
	w.bytes -= size
	w.admit()
}

func (w *window) admit() {
	for len(w.waiting) > 0 && w.fits(w.waiting[0].size) {
		first := w.waiting[0]
		w.waiting[0] = nil
		w.waiting = w.waiting[1:]
		w.take(first.size)
		close(first.ready)
	}
}

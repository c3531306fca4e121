package engine

import (
	"sync"
	"sync/atomic"
)

// A bell wakes all who wait for the next change. Without any, ringing is one load.
type bell struct {
	heard atomic.Bool // somebody has next
	mu    sync.Mutex
	next  chan struct{}
}

// wait returns a channel that is closed at the next ring. A change that a reader
// does not see after this call rings it.
func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
		b.heard.Store(true)
	}
	return b.next
}

// ring wakes them. The change has been made before.
func (b *bell) ring() {
	if !b.heard.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
		b.heard.Store(false)
	}
}

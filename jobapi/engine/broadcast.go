package engine

import (
	"sync"
	"sync/atomic"
)

// A broadcast tells all waiters about the next change. Without waiters, a send
// costs one load.
type broadcast struct {
	waited atomic.Bool // next is not nil
	mu     sync.Mutex
	next   chan struct{}
}

// wait returns a channel that is closed by the next send. A reader calls wait
// first and reads then: a change that it misses closes the channel.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
		b.waited.Store(true)
	}
	return b.next
}

// send wakes all waiters. The caller has made the change before.
func (b *broadcast) send() {
	if !b.waited.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
		b.waited.Store(false)
	}
}

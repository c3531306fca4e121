package processor

import (
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/command"
)

// Children keeps the child processes of [PDF] that have read a document, for the
// next one, because starting one takes longer than reading a page. A child reads
// one document at a time. It is kept only if it has read all of them without
// warnings, and has used little time and memory. The methods of Children may be
// called concurrently. The engines that share it may differ in their requests, not
// in the child and its limits.
type Children struct {
	mu     sync.Mutex
	idle   []*idleChild
	closed bool
	ending sync.WaitGroup
}

// idleChild is a child that waits for a document.
type idleChild struct {
	*command.Session
	timer *time.Timer
}

// What a child may have used to be kept, and for how long. The first bounds what
// is added to the limit of its processor time, which the kernel counts over its
// life; some hundred small documents take as long.
const (
	keepCPU    = time.Second
	keepMemory = 64 << 20 // bytes
	keepIdle   = 10 * time.Second
)

// take returns a child that waits, or nil.
func (c *Children) take() *command.Session {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.idle) > 0 {
		k := c.idle[len(c.idle)-1]
		c.idle = c.idle[:len(c.idle)-1]
		if !k.timer.Stop() {
			continue // it is being ended
		}
		if k.Idle() {
			c.ending.Done()
			return k.Session
		}
		go c.end(k)
	}
	return nil
}

// keep takes a child that has read a document, and reports whether it is kept.
func (c *Children) keep(child *command.Session) bool {
	if c == nil || !child.Idle() {
		return false
	}
	cpu, memory, err := child.Usage()
	if err != nil || cpu > keepCPU || memory > keepMemory {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	k := &idleChild{Session: child}
	c.ending.Add(1)
	k.timer = time.AfterFunc(keepIdle, func() { c.end(k) })
	c.idle = append(c.idle, k)
	return true
}

// end ends a child that has waited long enough.
func (c *Children) end(k *idleChild) {
	defer c.ending.Done()
	c.mu.Lock()
	c.idle = slices.DeleteFunc(c.idle, func(one *idleChild) bool { return one == k })
	c.mu.Unlock()
	k.Close()
}

// Close ends the children that wait; those that read end with their document.
func (c *Children) Close() error {
	c.mu.Lock()
	c.closed = true
	for _, k := range c.idle {
		if k.timer.Stop() {
			go c.end(k)
		}
	}
	c.mu.Unlock()
	c.ending.Wait()
	return nil
}

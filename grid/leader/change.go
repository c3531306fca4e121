package leader

import "sync"

// change wakes callers of next when note is called. Its methods may be called concurrently.
type change struct {
	mu      sync.Mutex
	c       chan struct{}
	awaited bool
}

func (c *change) note() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.awaited {
		close(c.c)
		c.c, c.awaited = make(chan struct{}), false
	}
}

func (c *change) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaited = true
	return c.c
}

package command

import "sync"

// maxIdleCgroups is how many cgroups are kept.
const maxIdleCgroups = 64

// Cgroups keeps cgroups that runs have left empty, for other runs: to make and delete one takes a tenth of a short run.
// Only those without limits are kept. Its zero value is ready to use; its methods may be called concurrently.
type Cgroups struct {
	mu     sync.Mutex
	idle   []cgroup
	closed bool
}

// Close deletes the cgroups that are kept. Runs that end later delete theirs.
func (c *Cgroups) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, g := range c.idle {
		_ = g.rmdir() // Sweep tries it again
	}
	c.idle = nil
}

// take returns a cgroup, without a directory if there is none. c may be nil.
func (c *Cgroups) take() (g cgroup) {
	if c == nil {
		return g
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle) - 1; n >= 0 {
		g, c.idle = c.idle[n], c.idle[:n]
	}
	return g
}

// add keeps a cgroup that is empty, and reports whether there was room for it. c may be nil.
func (c *Cgroups) add(g cgroup) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= maxIdleCgroups {
		return false
	}
	c.idle = append(c.idle, g)
	return true
}

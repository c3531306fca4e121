package jobapi

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// keptChanges is how many changes [Changes] keeps.
const keptChanges = 10_000

// Changes keeps which jobs have changed, in memory: it implements [Feed] and [Notifier] for a Jobs that calls Add and
// Wake. It keeps the newest 10 000 changes, and none before the first reader has asked for the present. Its methods may be
// called concurrently. The zero value is ready.
type Changes struct {
	awaited atomic.Bool // next is not nil: without a waiter, Wake costs one load
	read    atomic.Bool // somebody has asked for a position

	mu    sync.Mutex
	epoch string        // of all positions: a restart begins again
	ring  []string      // change number i is at i % keptChanges
	made  uint64        // how many changes there were since the first reader
	next  chan struct{} // closed by the next Add or Wake; nil while nothing waits
}

// Wanted reports whether somebody reads the ids. Until then Add keeps none, and a caller need not make any.
func (c *Changes) Wanted() bool { return c.read.Load() }

// Add tells that these jobs were made or have changed. The caller has made the change before.
func (c *Changes) Add(ids ...string) {
	if c.read.Load() && len(ids) > 0 {
		c.mu.Lock()
		for _, id := range ids {
			if len(c.ring) < keptChanges {
				c.ring = append(c.ring, id)
			} else {
				c.ring[c.made%keptChanges] = id
			}
			c.made++
		}
		c.mu.Unlock()
	}
	c.Wake()
}

// Wake ends the waiting of those who follow jobs by [Changes.Changed]: of a log, for instance. Nothing is kept of it.
func (c *Changes) Wake() {
	if !c.awaited.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
		c.awaited.Store(false)
	}
}

// Changed implements [Notifier]. A reader calls it first and reads then: a change that it misses closes the channel.
func (c *Changes) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wait()
}

// wait is Changed for who holds mu.
func (c *Changes) wait() <-chan struct{} {
	if c.next == nil {
		c.next = make(chan struct{})
		c.awaited.Store(true)
	}
	return c.next
}

// Changes implements [Feed]. A position is EPOCH-N, behind N changes.
func (c *Changes) Changes(ctx context.Context, after string) (ids []string, next string, lost bool, err error) {
	for {
		ids, next, lost, more := c.since(after)
		if more == nil {
			return ids, next, lost, nil
		}
		select {
		case <-ctx.Done():
			return nil, after, false, nil
		case <-more:
		}
	}
}

// since returns what has changed after a position. If that is nothing it returns a channel that is closed when there may be more.
func (c *Changes) since(after string) (ids []string, next string, lost bool, more <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch == "" {
		c.epoch = rand.Text()
		c.read.Store(true)
	}
	seen, ok := c.number(after)
	if !ok {
		return nil, c.position(c.made), after != "", nil
	}
	if seen == c.made {
		return nil, "", false, c.wait()
	}
	for ; seen < c.made && len(ids) < MaxGet; seen++ {
		ids = append(ids, c.ring[seen%keptChanges])
	}
	return ids, c.position(seen), false, nil
}

func (c *Changes) position(n uint64) string { return c.epoch + "-" + strconv.FormatUint(n, 10) }

// number reads a position. It reports false for one that is not of this epoch, or whose next change is no longer kept.
func (c *Changes) number(position string) (n uint64, ok bool) {
	epoch, text, _ := strings.Cut(position, "-")
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && epoch == c.epoch && n <= c.made && c.made-n <= uint64(len(c.ring))
}

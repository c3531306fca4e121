package member

import (
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// The bounds of what is kept of jobs that have ended.
const (
	cacheFor   = 30 * time.Minute
	cacheIDs   = 10_000
	cacheBytes = 256 << 20
)

// cache has the results of jobs that have ended, for leaders that assign them again. The oldest ones go first. The zero value is empty.
type cache struct {
	results map[wire.GUID]cached
	order   []wire.GUID // oldest first; those of results are among them
	bytes   int
}

type cached struct {
	payload []byte
	at      time.Time
}

// get returns the result of a job, and false if it is not known any more.
func (c *cache) get(id wire.GUID, now time.Time) ([]byte, bool) {
	c.sweep(now)
	known, ok := c.results[id]
	return known.payload, ok
}

// add keeps a result.
func (c *cache) add(id wire.GUID, payload []byte, now time.Time) {
	if c.results == nil {
		c.results = map[wire.GUID]cached{}
	}
	if _, ok := c.results[id]; ok {
		return // the first one counts
	}
	c.results[id] = cached{payload, now}
	c.order = append(c.order, id)
	c.bytes += len(payload)
	c.sweep(now)
}

// sweep forgets what is too old or too much.
func (c *cache) sweep(now time.Time) {
	n := 0
	for _, id := range c.order {
		old := c.results[id]
		if now.Sub(old.at) < cacheFor && len(c.results) <= cacheIDs && c.bytes <= cacheBytes {
			break
		}
		delete(c.results, id)
		c.bytes -= len(old.payload)
		n++
	}
	c.order = c.order[n:]
}

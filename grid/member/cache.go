package member

import (
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Limits of the cache.
const (
	cacheFor   = 30 * time.Minute
	cacheIDs   = 10_000
	cacheBytes = 256 << 20
)

// cache has the results of jobs that have ended, in case a leader assigns them again. It drops the oldest ones first. The zero value is empty.
type cache struct {
	results map[wire.GUID]cached
	order   []wire.GUID // of results, oldest first
	bytes   int
}

type cached struct {
	payload []byte
	at      time.Time
}

// get returns the result of a job, or false if the cache does not have it.
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

// sweep drops the oldest results beyond the limits.
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

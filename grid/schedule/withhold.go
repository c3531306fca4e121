package schedule

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

const (
	keepLost = time.Hour // how long it is known of a worker that it was lost, or is to be given no jobs
	maxLost  = 1000      // workers that were lost
)

// Withhold gives a worker no more jobs, or gives it some again; those that it has go on. It holds for the worker's next connections, too, until it has had none for an
// hour, or the leader ends. It reports false if no such worker is connected or was lately.
func (c *Core) Withhold(now Moment, id wire.GUID, withheld bool) bool {
	c.at(now)
	_, known := c.withheld[id]
	if _, lost := c.gone[id]; lost {
		known = true
	}
	for _, p := range c.peers {
		if p.group == nil || p.worker != id {
			continue
		}
		known = true
		p.withheld = withheld
		c.place(p)
		c.heat(p.group)
	}
	delete(c.withheld, id)
	if known && withheld {
		c.withheld[id] = c.now
	}
	return known
}

// lose remembers a worker whose connection has ended, unless it was stopping.
func (c *Core) lose(p *peer) {
	if p.draining || len(c.gone) >= maxLost {
		return
	}
	for _, other := range c.peers { // p is no longer there
		if other.group != nil && other.worker == p.worker {
			return
		}
	}
	w := c.workerOf(p)
	w.Peer, w.Credit, w.Running = 0, 0, nil
	c.gone[p.worker] = w
}

// Lost returns the workers whose connections have ended within the last hour although they were not stopping, by host.
func (c *Core) Lost() []Worker {
	return slices.SortedFunc(maps.Values(c.gone), func(a, b Worker) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Seen, b.Seen)) })
}

// sweepWorkers forgets workers that have not been connected for long.
func (c *Core) sweepWorkers() {
	maps.DeleteFunc(c.gone, func(_ wire.GUID, w Worker) bool { return c.now-w.Seen > keepLost })
	for _, p := range c.peers {
		if _, ok := c.withheld[p.worker]; ok && p.group != nil {
			c.withheld[p.worker] = c.now
		}
	}
	maps.DeleteFunc(c.withheld, func(_ wire.GUID, seen Moment) bool { return c.now-seen > keepLost })
}

// workerOf returns what is known of a worker.
func (c *Core) workerOf(p *peer) Worker {
	w := Worker{
		Peer: p.id, ID: p.worker, Host: p.host, Pattern: p.group.key.pattern, Credit: p.credit, Limit: p.limit, Draining: p.draining || p.withheld, Since: p.since, Seen: c.now,
	}
	for _, a := range p.running {
		w.Running = append(w.Running, a.job.id)
	}
	return w
}

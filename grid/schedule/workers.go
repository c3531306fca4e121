package schedule

import (
	"container/heap"

	"github.com/batchfleet/batchfleet/grid/subject"
	"github.com/batchfleet/batchfleet/grid/wire"
)

type groupKey struct {
	pattern string
	array   bool // its workers can run jobs of arrays
}

// group has the workers with one pattern.
type group struct {
	key      groupKey
	workers  int
	free     free        // those with credit: the one with the fewest jobs first
	starving ring[*exec] // have jobs, and found no worker with credit
}

func (g *group) takes(e execKey) bool {
	return (g.key.array || !e.array) && subject.Match(g.key.pattern, wire.AssignPrefix+e.name)
}

// free is a heap of workers that can be given a job.
type free []*peer

func (f free) Len() int { return len(f) }

// Less implements heap.Interface: the fewest jobs, then the most credit, then the longest without a new one.
func (f free) Less(a, b int) bool { return before(f[a], f[b]) }

func before(x, y *peer) bool {
	switch {
	case len(x.running) != len(y.running):
		return len(x.running) < len(y.running)
	case x.credit != y.credit:
		return x.credit > y.credit
	}
	return x.turn < y.turn
}

func (f free) Swap(a, b int) {
	f[a], f[b] = f[b], f[a]
	f[a].index, f[b].index = a+1, b+1
}

// Push implements heap.Interface.
func (f *free) Push(v any) {
	p := v.(*peer)
	*f = append(*f, p)
	p.index = len(*f)
}

// Pop implements heap.Interface.
func (f *free) Pop() any {
	old := *f
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*f = old[:len(old)-1]
	p.index = 0
	return p
}

// changed puts a worker where it belongs in its group, after its credit or the number of its jobs has changed.
func (c *Core) changed(p *peer) {
	g := p.group
	switch can := p.credit > 0 && !p.draining && c.peers[p.id] == p; {
	case can && p.index > 0:
		heap.Fix(&g.free, p.index-1)
	case can:
		heap.Push(&g.free, p)
	case p.index > 0:
		heap.Remove(&g.free, p.index-1)
	}
	c.feed(g)
}

// feed lets execs take their turn that have waited for a worker of a group: no more of them than it may take jobs.
func (c *Core) feed(g *group) {
	if len(g.free) == 0 {
		return
	}
	for n := len(g.free); n > 0 && g.starving.len() > 0; {
		e := g.starving.pop()
		for i := range e.groups {
			if e.groups[i].group == g {
				e.groups[i].listed = false
			}
		}
		if !e.starve {
			c.dropIdle(e)
			continue
		}
		e.starve = false
		c.serveSoon(e)
		n--
	}
}

func (c *Core) dropIdle(e *exec) {
	if e.queued == 0 && e.ring.len() == 0 && !e.ready && c.execs[e.key] == e {
		delete(c.execs, e.key)
	}
}

// starve lets an exec wait until a worker that takes its jobs has credit.
func (c *Core) starve(e *exec) {
	e.starve = true
	for i := range e.groups {
		if m := &e.groups[i]; !m.listed {
			m.listed = true
			m.starving.push(e)
		}
	}
}

// join finds the groups that take the jobs of an exec.
func (c *Core) join(e *exec) {
	for _, g := range c.groups {
		if g.takes(e.key) {
			e.groups = append(e.groups, member{group: g})
		}
	}
}

// groupOf returns the group of a pattern.
func (c *Core) groupOf(key groupKey) *group {
	g := c.groups[key]
	if g != nil {
		return g
	}
	g = &group{key: key}
	c.groups[key] = g
	for _, e := range c.execs {
		if g.takes(e.key) {
			e.groups = append(e.groups, member{group: g, listed: e.starve})
			if e.starve {
				g.starving.push(e)
			}
		}
	}
	return g
}

// removeWorker takes a worker out of its group, and the group away if it was the last one.
func (c *Core) removeWorker(p *peer) {
	g := p.group
	p.credit = 0
	c.changed(p)
	if g.workers--; g.workers > 0 {
		return
	}
	delete(c.groups, g.key)
	for _, e := range c.execs {
		for i := range e.groups {
			if e.groups[i].group == g {
				e.groups[i] = e.groups[len(e.groups)-1]
				e.groups = e.groups[:len(e.groups)-1]
				break
			}
		}
		c.dropIdle(e)
	}
}

// WorkerInfo is what the hello of a worker says.
type WorkerInfo struct {
	ID       wire.GUID
	Pattern  string
	Host     string
	Features []string
	Limit    int // of jobs that it has and credit for more; 0 for 65 536
	Running  []wire.Running
}

// maxLimit is the limit of a worker that declares none.
const maxLimit = 1 << 16

// WorkerHello tells of a worker. What it runs already stays its own, unless that was given to another one meanwhile.
func (c *Core) WorkerHello(now Moment, id PeerID, info WorkerInfo) {
	c.at(now)
	p := &peer{id: id, since: c.now, worker: info.ID, host: info.Host, features: featuresOf(info.Features), limit: info.Limit}
	if p.limit <= 0 || p.limit > maxLimit {
		p.limit = maxLimit
	}
	if p.host == "" {
		p.host = info.ID.String()
	}
	c.peers[id] = p
	p.group = c.groupOf(groupKey{info.Pattern, p.features.array})
	p.group.workers++
	for _, r := range info.Running {
		c.adopt(p, r)
	}
}

// maxOffences is how many credits that make no sense are borne.
const maxOffences = 16

// Credit gives a worker n more credits. What makes no sense is not counted; too much of it ends the connection.
func (c *Core) Credit(now Moment, id PeerID, n int) {
	c.at(now)
	p := c.peers[id]
	if p == nil || p.group == nil {
		return
	}
	if n <= 0 || p.credit+max(0, p.busy-n)+n > p.limit {
		c.Counts.CreditViolations++
		if p.offences++; p.offences == maxOffences {
			c.emit(Effect{Op: CloseWith, Peer: id, Code: wire.CodeProtocol, Reason: "credits that make no sense"})
			return
		}
		if n = min(n, p.limit-p.credit); n <= 0 {
			return
		}
	}
	p.busy = max(0, p.busy-n)
	p.credit = min(p.credit+n, p.limit-p.busy)
	c.changed(p)
}

// Offence counts a credit that could not be read.
func (c *Core) Offence(now Moment, id PeerID) { c.Credit(now, id, 0) }

// Drain gives a worker no more jobs.
func (c *Core) Drain(now Moment, id PeerID) {
	c.at(now)
	if p := c.peers[id]; p != nil && p.group != nil {
		p.draining = true
		c.changed(p)
	}
}

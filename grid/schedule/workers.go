package schedule

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

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
	free     free           // those with credit: the one with the fewest jobs first
	starving chain[*member] // of execs that have jobs, and found no worker with credit
	turn     link[*group]   // in Core.hot
}

// member links an exec to a group whose workers take its jobs.
type member struct {
	group *group
	exec  *exec
	turn  link[*member] // in group.starving
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

// place puts a worker where it belongs in its group, after its credit or the number of its jobs has changed.
func (c *Core) place(p *peer) {
	switch can := p.credit > 0 && !p.draining && !p.withheld && c.peers[p.id] == p; {
	case can && p.index > 0:
		heap.Fix(&p.group.free, p.index-1)
	case can:
		heap.Push(&p.group.free, p)
	case p.index > 0:
		heap.Remove(&p.group.free, p.index-1)
	}
}

// heat puts a group into Core.hot if execs wait for one of its workers, and one has credit again.
func (c *Core) heat(g *group) {
	if len(g.free) > 0 && g.starving.n > 0 && g.turn.in == nil {
		c.hot.pushBack(&g.turn)
	}
}

// join notes for each group whether it takes the jobs of an exec.
func (c *Core) join(e *exec) {
	for _, g := range c.groups {
		c.joinGroup(e, g)
	}
}

func (c *Core) joinGroup(e *exec, g *group) {
	if c.paused[e.key.name] != 0 || !g.takes(e.key) {
		return
	}
	m := &member{group: g, exec: e}
	m.turn.of = m
	e.members = append(e.members, m)
	if e.starving {
		g.starving.pushBack(&m.turn)
	}
}

// groupOf returns the group of a pattern, which is made if there is none.
func (c *Core) groupOf(key groupKey) *group {
	g := c.groups[key]
	if g == nil {
		g = &group{key: key}
		g.turn.of = g
		c.groups[key] = g
		for _, e := range slices.SortedFunc(maps.Values(c.execs), func(a, b *exec) int { return cmp.Compare(a.key.name, b.key.name) }) {
			c.joinGroup(e, g)
		}
	}
	return g
}

// removeWorker takes a worker out of its group, and the group away if it was the last one.
func (c *Core) removeWorker(p *peer) {
	g := p.group
	p.credit = 0
	c.place(p)
	if g.workers--; g.workers > 0 {
		return
	}
	delete(c.groups, g.key)
	g.turn.leave()
	for _, e := range c.execs {
		e.members = slices.DeleteFunc(e.members, func(m *member) bool {
			if m.group == g {
				m.turn.leave()
			}
			return m.group == g
		})
	}
}

// WorkerInfo is the hello of a worker.
type WorkerInfo struct {
	ID       wire.GUID
	Pattern  string
	Host     string
	Features []string
	Limit    int // of jobs that it has and credit for more; 0 for 65 536
	Running  []wire.Running
}

// maxLimit is the limit of a worker that declares none.
const maxLimit = wire.MaxParallel

// WorkerHello adds a worker. It keeps the attempts that it runs already, unless another worker has got the jobs meanwhile.
func (c *Core) WorkerHello(now Moment, id PeerID, info WorkerInfo) {
	c.at(now)
	p := &peer{id: id, since: c.now, worker: info.ID, host: info.Host, features: featuresOf(info.Features), limit: info.Limit}
	if p.limit <= 0 || p.limit > maxLimit {
		p.limit = maxLimit
	}
	if p.host == "" {
		p.host = info.ID.String()
	}
	_, p.withheld = c.withheld[info.ID]
	delete(c.gone, info.ID)
	c.peers[id] = p
	p.group = c.groupOf(groupKey{info.Pattern, p.features.array})
	p.group.workers++
	for _, r := range info.Running {
		c.adopt(p, r)
	}
}

// maxOffences is how many invalid credits end a connection.
const maxOffences = 16

// Credit gives a worker n more credits; n is 0 for a Credit that could not be read. Credit that is invalid or goes beyond the worker's limit is not
// counted, and 16 of those end the connection.
func (c *Core) Credit(now Moment, id PeerID, n int) {
	c.at(now)
	p := c.peers[id]
	if p == nil || p.group == nil {
		return
	}
	if room := p.room(); n <= 0 || n > room {
		c.Counts.CreditViolations++
		if p.offences++; p.offences == maxOffences {
			c.emit(Effect{Op: CloseWith, Peer: id, Code: wire.CodeProtocol, Reason: "too many invalid credits"})
		}
		if n = min(n, room); n <= 0 || p.offences >= maxOffences {
			return
		}
	}
	p.credit += n
	c.place(p)
	c.heat(p.group)
}

// room is how much more credit a worker may give: its credit and its jobs together are at most its limit.
func (p *peer) room() int { return p.limit - p.credit - len(p.running) }

// Drain gives a worker no more jobs.
func (c *Core) Drain(now Moment, id PeerID) {
	c.at(now)
	if p := c.peers[id]; p != nil && p.group != nil {
		p.draining = true
		c.place(p)
	}
}

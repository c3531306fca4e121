package schedule

import (
	"cmp"
	"slices"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// maxLook is how many jobs one call of Jobs reads.
const maxLook = 20_000

// Jobs calls show with the jobs that want accepts and that were submitted before a time, in Unix milliseconds (0 for any), newest first, until show returns false. Position is 0 for the newest jobs, or the value that an earlier
// call has returned, to go on behind the jobs of that call. It returns 0 at the end. A call reads a limited number of jobs, so it may show few although
// there are more.
func (c *Core) Jobs(position uint64, untilMs int64, want func(*Info) bool, show func(Info) bool) (next uint64) {
	o := &c.order
	to := len(o.jobs)
	var last *job // that was looked at
	if position > 0 {
		to = o.find(position)
		if to < len(o.jobs) && o.jobs[to].seq == position {
			last = o.jobs[to]
			_, to = o.run(to, c.bornMs)
		}
	}
	for looked := 0; ; {
		if last == nil && untilMs != 0 {
			to = o.before(to, untilMs)
		}
		if to == 0 {
			return 0
		}
		from, _ := o.run(to-1, c.bornMs)
		run := o.sorted(from, to)
		if last != nil {
			run = run[slices.Index(run, last)+1:]
		}
		for _, j := range run {
			if j.state != 0 && (untilMs == 0 || c.bornMs(j) < untilMs) {
				if info := c.info(j); want(&info) && !show(info) {
					return j.seq
				}
			}
			last = j
		}
		if looked += len(run); looked > maxLook {
			return last.seq
		}
		to, last = from, nil
	}
}

// Dead calls show with the dead letters, oldest first, until it returns false.
func (c *Core) Dead(show func(Info) bool) {
	for _, j := range c.dead {
		if !show(c.info(j)) {
			return
		}
	}
}

// DeadByExec counts the dead letters.
func (c *Core) DeadByExec() map[string]int {
	n := map[string]int{}
	for _, j := range c.dead {
		n[j.line.exec.key.name]++
	}
	return n
}

// Worker is what is known of a worker.
type Worker struct {
	Peer     PeerID // 0 for one that was lost
	ID       wire.GUID
	Host     string
	Pattern  string
	Running  []wire.GUID
	Credit   int
	Limit    int
	Draining bool   // it takes no more jobs: by itself, or since that was asked for
	Since    Moment // when it has connected
	Seen     Moment // when it was lost; now if it is connected
}

// Workers returns the connected workers, by host.
func (c *Core) Workers() []Worker {
	var all []Worker
	for _, p := range c.peers {
		if p.group == nil {
			continue
		}
		all = append(all, c.workerOf(p))
	}
	slices.SortFunc(all, func(a, b Worker) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Peer, b.Peer)) })
	return all
}

// ExecInfo is what is known of an exec.
type ExecInfo struct {
	Name   string
	Queued int
	Oldest Moment // how long its oldest job has waited
	Born   Moment // when the oldest of those that are next was submitted
}

// Execs returns the execs with jobs queued, by name.
func (c *Core) Execs() []ExecInfo {
	byName := map[string]*ExecInfo{}
	for _, cl := range c.clients {
		for e, l := range cl.lines {
			if l.n == 0 {
				continue
			}
			i := byName[e.key.name]
			if i == nil {
				i = &ExecInfo{Name: e.key.name, Born: c.now}
				byName[e.key.name] = i
			}
			i.Queued += l.n
			for _, lane := range l.lanes {
				if lane.first != nil {
					i.Oldest, i.Born = max(i.Oldest, c.now-lane.first.since), min(i.Born, lane.first.born)
				}
			}
		}
	}
	all := make([]ExecInfo, 0, len(byName))
	for _, i := range byName {
		all = append(all, *i)
	}
	slices.SortFunc(all, func(a, b ExecInfo) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// ClientInfo is what is known of a client.
type ClientInfo struct {
	Name                   string
	Sessions, Running, Cap int
	Jobs                   int
	Results                int64 // bytes that it has not acknowledged
}

// Clients returns the clients by name.
func (c *Core) Clients() []ClientInfo {
	all := make([]ClientInfo, 0, len(c.clients))
	for _, cl := range c.clients {
		i := ClientInfo{Name: cl.name, Sessions: len(cl.sessions), Running: cl.running, Cap: cl.cap, Results: cl.results}
		for _, l := range cl.lines {
			i.Jobs += l.jobs
		}
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b ClientInfo) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

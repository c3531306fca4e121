package schedule

import "slices"

type execKey struct {
	name  string
	array bool // jobs of arrays, which not every worker can run
}

// exec has the lines of the clients that have jobs for it.
type exec struct {
	key    execKey
	queued int
	ring   ring[*line] // have jobs, and their clients have room or are not known to have none
	groups []member
	ready  bool // in Core.ready
	starve bool // has jobs, and waits for a worker
}

// member is a group of workers that an exec's jobs can be given to.
type member struct {
	*group
	listed bool // the exec is in group.starving
}

// line has the jobs of one client for one exec that are queued: those of higher priority first.
type line struct {
	exec    *exec
	client  *client
	lanes   []*lane
	n       int
	waiting bool // in exec.ring or client.held
}

type lane struct {
	priority int
	list
}

// line returns that of a client and an exec.
func (c *Core) line(clientName, execName string, array bool) *line {
	cl := c.client(clientName)
	key := execKey{execName, array}
	e := c.execs[key]
	if e == nil {
		e = &exec{key: key}
		c.execs[key] = e
		c.join(e)
	}
	l := cl.lines[e]
	if l == nil {
		l = &line{exec: e, client: cl}
		cl.lines[e] = l
	}
	return l
}

// enqueue puts a job into its line, before others of its priority or behind them.
func (c *Core) enqueue(j *job, front bool) {
	l := j.line
	if c.execs[l.exec.key] != l.exec || c.clients[l.client.name] != l.client || l.client.lines[l.exec] != l { // it was dropped while the job had nothing to do with it
		l = c.line(l.client.name, l.exec.key.name, l.exec.key.array)
		l.client.jobs++
		j.line.client.jobs--
		j.line = l
	}
	j.state, j.since = queued, c.now
	lane := l.lane(j.options().Priority)
	if front {
		lane.pushFront(j)
	} else {
		lane.pushBack(j)
	}
	l.n++
	l.exec.queued++
	c.offer(l)
}

// dequeue takes a job out of its line.
func (c *Core) dequeue(j *job) {
	j.leave()
	j.line.n--
	j.line.exec.queued--
}

func (l *line) lane(priority int) *lane {
	i, found := slices.BinarySearchFunc(l.lanes, priority, func(a *lane, p int) int { return p - a.priority })
	if !found {
		l.lanes = slices.Insert(l.lanes, i, &lane{priority: priority})
	}
	return l.lanes[i]
}

// head returns the next job. The line must not be empty.
func (l *line) head() *job {
	for i, lane := range l.lanes {
		if lane.first != nil {
			l.lanes = slices.Delete(l.lanes, 0, i) // those before it are empty
			return lane.first
		}
	}
	panic("schedule: a line with jobs has none")
}

// offer lets a line that has jobs take its turn.
func (c *Core) offer(l *line) {
	if l.waiting || l.n == 0 {
		return
	}
	l.waiting = true
	l.exec.ring.push(l)
	c.serveSoon(l.exec)
}

// release lets the lines take their turn that have waited for their client to have room.
func (c *Core) release(cl *client) {
	if len(cl.held) == 0 || !cl.hasRoom(c) {
		return
	}
	held := cl.held
	cl.held = nil
	for _, l := range held {
		l.waiting = false
		c.offer(l)
	}
}

// serveSoon puts an exec into the order in which they are served.
func (c *Core) serveSoon(e *exec) {
	if !e.ready && !e.starve {
		e.ready = true
		c.ready.push(e)
	}
}

// dropExec forgets an exec that has no jobs.
func (c *Core) dropExec(l *line) {
	e := l.exec
	if l.n == 0 && !l.waiting {
		delete(l.client.lines, e)
	}
	if e.queued > 0 || e.ring.len() > 0 || e.ready || c.execs[e.key] != e {
		return
	}
	for _, m := range e.groups {
		if m.listed {
			return // it is looked at again there
		}
	}
	delete(c.execs, e.key)
}

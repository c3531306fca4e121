package schedule

import "slices"

type execKey struct {
	name  string
	array bool // jobs of arrays, which not every worker can run
}

// exec has the lines of the clients that have jobs for it. While a line is in its ring, the exec is either ready or starving.
type exec struct {
	key      execKey
	lines    int // lines, also those whose jobs have all ended
	queued   int
	ring     chain[*line] // lines with jobs queued, in turn, unless they wait in client.held
	members  []*member
	turn     link[*exec] // in Core.ready
	starving bool        // waits for a worker with credit
	woken    bool        // was starving, and has not been served since
}

// line has the queued jobs of one client for one exec, by priority. It is kept as long as the state has one of its jobs.
type line struct {
	exec   *exec
	client *client
	lanes  []*lane
	jobs   int         // in the state
	n      int         // queued
	turn   link[*line] // in exec.ring or client.held while jobs are queued
}

type lane struct {
	priority int8
	list
}

// line returns the line of a client and an exec, which is made if there is none. The caller must add a job to it.
func (c *Core) line(clientName, execName string, array bool) *line {
	cl := c.client(clientName)
	key := execKey{execName, array}
	e := c.execs[key]
	if e == nil {
		e = &exec{key: key}
		e.turn.of = e
		c.execs[key] = e
		c.join(e)
	}
	l := cl.lines[e]
	if l == nil {
		l = &line{exec: e, client: cl}
		l.turn.of = l
		cl.lines[e] = l
		e.lines++
	}
	return l
}

// leaveLine counts a job that was removed from the state. The line, its exec and its client are removed with their last job.
func (c *Core) leaveLine(l *line) {
	if l.jobs--; l.jobs > 0 {
		return
	}
	e := l.exec
	delete(l.client.lines, e)
	c.dropClient(l.client)
	if e.lines--; e.lines == 0 {
		delete(c.execs, e.key)
	}
}

// enqueue puts a job into its line, before or behind the others of its priority.
func (c *Core) enqueue(j *job, front bool) {
	l := j.line
	c.set(j, queued)
	j.since = c.now
	lane := l.lane(j.options().priority)
	if front {
		lane.pushFront(j)
	} else {
		lane.pushBack(j)
	}
	l.n++
	l.exec.queued++
	if l.exec.queued == 1 {
		c.busyExecs++
	}
	if l.turn.in == nil {
		c.offer(l)
	}
	c.watchExpiry(j)
}

// dequeue takes a job out of its line.
func (c *Core) dequeue(j *job) {
	l, e := j.line, j.line.exec
	j.leave()
	if j.rare != nil {
		c.timers.stop(&j.rare.timer)
	}
	l.n--
	if e.queued--; e.queued == 0 {
		c.busyExecs--
	}
	if l.n == 0 {
		l.turn.leave()
		if len(l.lanes) > 1 {
			l.lanes = nil
		}
		c.rest(e)
	}
}

func (l *line) lane(priority int8) *lane {
	i, found := slices.BinarySearchFunc(l.lanes, priority, func(a *lane, p int8) int { return int(p) - int(a.priority) })
	if !found {
		l.lanes = slices.Insert(l.lanes, i, &lane{priority: priority})
	}
	return l.lanes[i]
}

// head returns the next job of a line, which must not be empty.
func (l *line) head() *job {
	for i, lane := range l.lanes {
		if lane.first != nil {
			l.lanes = slices.Delete(l.lanes, 0, i) // those before it are empty
			return lane.first
		}
	}
	panic("schedule: a line with jobs has none")
}

// offer puts a line that has jobs into the ring of its exec.
func (c *Core) offer(l *line) {
	e := l.exec
	e.ring.pushBack(&l.turn)
	if !e.starving && e.turn.in == nil {
		c.ready.pushBack(&e.turn)
	}
}

// hold makes a line wait until its client has room.
func (c *Core) hold(l *line) {
	l.client.held.pushBack(&l.turn)
	c.rest(l.exec)
}

// rest makes an exec wait for nothing if it has no line in its ring.
func (c *Core) rest(e *exec) {
	if e.ring.n > 0 {
		return
	}
	e.turn.leave()
	e.starving, e.woken = false, false
	for _, m := range e.members {
		m.turn.leave()
	}
}

// release puts a client that has room again into Core.roomy, if lines wait for that.
func (c *Core) release(cl *client) {
	if cl.held.n > 0 && cl.hasRoom(c) && cl.turn.in == nil {
		c.roomy.pushBack(&cl.turn)
	}
}

package schedule

import "github.com/batchfleet/batchfleet/grid/wire"

// pump gives jobs to workers as long as there are both.
func (c *Core) pump() {
	for c.ready.len() > 0 {
		e := c.ready.pop()
		e.ready = false
		if l := c.next(e); l != nil {
			w := c.pick(e, l.head())
			if w == nil {
				c.starve(e)
				continue
			}
			c.serve(l, w)
			continue
		}
		// It has nothing for a worker that was kept for it: others may.
		for _, m := range e.groups {
			c.feed(m.group)
		}
		c.dropIdle(e)
	}
}

// next returns the line of an exec whose turn it is, or nil if none of them has a job that may run.
func (c *Core) next(e *exec) *line {
	for e.ring.len() > 0 {
		l := e.ring.first()
		switch {
		case l.n == 0:
			e.ring.pop()
			l.waiting = false
			c.dropLine(l)
		case !l.client.hasRoom(c):
			e.ring.pop()
			l.client.held = append(l.client.held, l)
		default:
			return l
		}
	}
	return nil
}

// dropLine forgets a line without jobs.
func (c *Core) dropLine(l *line) {
	if l.client.lines[l.exec] == l {
		delete(l.client.lines, l.exec)
	}
}

// pick returns the worker for a job, or nil.
func (c *Core) pick(e *exec, j *job) *peer {
	var best, second *peer
	for _, m := range e.groups {
		if len(m.free) == 0 {
			continue
		}
		w := m.free[0]
		if j.rare != nil && !j.rare.avoid.IsZero() && w.worker == j.rare.avoid {
			second = w
			w = other(m.free, j.rare.avoid)
		}
		if w != nil && (best == nil || before(w, best)) {
			best = w
		}
	}
	if best == nil {
		return second // better the same worker again than none
	}
	return best
}

// other returns a worker that can be given a job and is not a certain one. It looks at the next few: one worker seldom has more connections.
func other(f free, avoid wire.GUID) *peer {
	var best *peer
	for _, w := range f[1:min(len(f), 8)] {
		if w.worker != avoid && (best == nil || before(w, best)) {
			best = w
		}
	}
	return best
}

// serve gives the next job of a line to a worker.
func (c *Core) serve(l *line, w *peer) {
	e := l.exec
	e.ring.pop()
	l.waiting = false
	j := l.head()
	if j.rare != nil && j.rare.array != nil && j.rare.index < 0 {
		j = c.nextOf(j)
	} else {
		c.dequeue(j)
	}
	c.assign(j, w)
	if l.n > 0 {
		c.offer(l)
	} else {
		c.dropLine(l)
	}
	if e.ring.len() > 0 {
		c.serveSoon(e)
	} else {
		c.dropIdle(e)
	}
}

package schedule

import "github.com/batchfleet/batchfleet/grid/wire"

// pump assigns jobs to workers as long as there are both.
//
// It processes only what has changed: groups whose workers have credit again, execs that may be served, and clients that have room again. Each step
// assigns one job, or moves an exec or a line to the list in which it waits for the next change.
func (c *Core) pump() {
	for {
		switch {
		case c.hot.n > 0:
			c.feed(c.hot.pop())
		case c.ready.n > 0:
			c.serve(c.ready.pop())
		case c.roomy.n > 0:
			c.admit(c.roomy.first.of)
		default:
			return
		}
	}
}

// feed makes the exec ready that has waited longest for a worker of a group.
func (c *Core) feed(g *group) {
	if len(g.free) == 0 || g.starving.n == 0 {
		return
	}
	e := g.starving.first.of.exec
	for _, m := range e.members {
		m.turn.leave()
	}
	e.starving, e.woken = false, true
	c.ready.pushBack(&e.turn)
}

// starve makes an exec wait until a worker that takes its jobs has credit.
func (c *Core) starve(e *exec) {
	e.starving = true
	for _, m := range e.members {
		if e.woken {
			m.group.starving.pushFront(&m.turn) // another exec got the worker: keep the place
		} else {
			m.group.starving.pushBack(&m.turn)
		}
	}
	e.woken = false
}

// admit puts the next line of a client back into its exec's ring, if the client has room.
func (c *Core) admit(cl *client) {
	if cl.held.n == 0 || !cl.hasRoom(c) {
		cl.turn.leave()
		return
	}
	c.offer(cl.held.pop())
}

// serve assigns one job of an exec.
func (c *Core) serve(e *exec) {
	if !e.hasWorker() {
		c.starve(e)
		return
	}
	l := c.next(e)
	if l == nil { // other execs may use the worker
		for _, m := range e.members {
			c.heat(m.group)
		}
		return
	}
	j := l.head()
	w := c.pick(e, j)
	e.ring.pushBack(&l.turn)
	if j.isArray() {
		j = c.nextOf(j)
	} else {
		c.dequeue(j)
	}
	if j != nil {
		c.assign(j, w)
	}
	e.woken = false
	c.feed(w.group)
	if e.ring.n > 0 {
		c.ready.pushBack(&e.turn)
	}
}

// next returns the next line of an exec, or nil if no line has a job that may run.
func (c *Core) next(e *exec) *line {
	for e.ring.n > 0 {
		l := e.ring.first.of
		if !l.client.hasRoom(c) {
			c.hold(l)
			continue
		}
		j := l.head()
		if j.rare == nil || j.rare.notAfter == 0 || c.now <= j.rare.notAfter {
			return l
		}
		c.outOfLine(j)
		c.expire(j)
	}
	return nil
}

func (e *exec) hasWorker() bool {
	for _, m := range e.members {
		if len(m.group.free) > 0 {
			return true
		}
	}
	return false
}

// pick returns the worker for a job; at least one must have credit. It avoids the worker of the last attempt, which was lost or handed back.
func (c *Core) pick(e *exec, j *job) *peer {
	var avoid wire.GUID
	if j.rare != nil {
		avoid = j.rare.avoid
	}
	var best, second *peer
	for _, m := range e.members {
		if len(m.group.free) == 0 {
			continue
		}
		w := m.group.free[0]
		if !avoid.IsZero() && w.worker == avoid {
			second = w
			w = other(m.group.free, avoid)
		}
		if w != nil && (best == nil || before(w, best)) {
			best = w
		}
	}
	if best == nil {
		return second // no other worker has credit
	}
	return best
}

// other returns the best worker with credit except one, or nil. It reads only the next few: a worker seldom has more connections.
func other(f free, avoid wire.GUID) *peer {
	var best *peer
	for _, w := range f[1:min(len(f), 8)] {
		if w.worker != avoid && (best == nil || before(w, best)) {
			best = w
		}
	}
	return best
}

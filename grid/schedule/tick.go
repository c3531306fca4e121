package schedule

// Tick does what is due. It must be called when the moment of Next has come.
func (c *Core) Tick(now Moment) {
	c.at(now)
	for {
		t := c.timers.due(c.now)
		if t == nil {
			break
		}
		c.due(t)
	}
	if c.recoverUntil > 0 && c.now >= c.recoverUntil {
		c.endRecovery()
	}
	if c.now >= c.sweepAt {
		c.sweepAt = c.now + sweepEvery
		c.sweep()
	}
}

// Next returns when Tick is to be called.
func (c *Core) Next() Moment {
	next := max(c.sweepAt, c.now+1)
	if len(c.timers) > 0 {
		next = min(next, c.timers[0].at)
	}
	if c.recoverUntil > 0 {
		next = min(next, c.recoverUntil)
	}
	return next
}

func (c *Core) due(t *timer) {
	j := t.job
	switch a := j.run; {
	case a != nil && t == &a.timer && a.accepted:
		c.Counts.LeaseExpired++
		c.lost(a, "its worker did not say that it still runs", false)
	case a != nil && t == &a.timer && !a.worker.features.accept:
		c.Counts.LeaseExpired++
		c.lost(a, "it took too long", false)
	case a != nil && t == &a.timer:
		c.Counts.NotAccepted++
		c.lost(a, "its worker did not accept it", false)
	case j.state == delayed:
		c.enqueue(j, true)
	case j.state == queued:
		c.outOfLine(j)
		c.expire(j)
	}
}

// endRecovery gives up waiting for what was there before the leader was started again: workers with their attempts, and clients whose jobs end with
// their connections.
func (c *Core) endRecovery() {
	c.recoverUntil = 0
	for c.recovering.last != nil { // each goes before those that are queued, so that the first one is first again
		c.unclaimed(c.recovering.last)
	}
	for _, j := range c.order.jobs {
		if j.state != 0 && j.isOpen() && j.options().tie && j.rare.tied == nil {
			c.cancel(j, clientGone)
		}
	}
}

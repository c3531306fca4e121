package schedule

// Tick does what is due. It must be called at the time that [Core.Next] returns, or later.
func (c *Core) Tick(now Moment) {
	c.at(now)
	for {
		t := c.timers.due(c.now)
		if t == nil {
			break
		}
		c.due(t)
	}
	if c.recoverUntil > 0 && c.now >= c.waitedAt+c.waitStep() {
		c.waitForWorkers()
	}
	if c.recoverUntil > 0 && c.now >= c.recoverUntil {
		c.endRecovery()
	}
	if c.now >= c.sweepAt {
		c.sweepAt = c.now + sweepEvery
		c.sweep()
	}
}

// Next returns when [Core.Tick] must be called next.
func (c *Core) Next() Moment {
	next := max(c.sweepAt, c.now+1)
	if len(c.timers) > 0 {
		next = min(next, c.timers[0].at)
	}
	if c.recoverUntil > 0 {
		next = min(next, c.recoverUntil, c.waitedAt+c.waitStep())
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
		c.lost(a, ReasonTooLong, false)
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

// waitStep is how often it is kept how long jobs have waited for their workers.
func (c *Core) waitStep() Moment { return max(1, c.cfg.Recovery/10) }

// waitForWorkers keeps how long jobs have waited for their workers, and gives up waiting for those that earlier leaders have waited for, too: else none
// would come back if leaders end before the time is over.
func (c *Core) waitForWorkers() {
	d := c.now - c.waitedAt
	c.waitedAt = c.now
	if c.recovering.n == 0 {
		return
	}
	if !c.cfg.NoRecords {
		c.keep(waitedRecord(c.buf, d))
	}
	c.haveWaited(d)
	for j := c.recovering.last; j != nil; { // the last one first, as in endRecovery
		prev := j.prev
		if j.rare.waited > c.cfg.Recovery {
			c.unclaimed(j)
		}
		j = prev
	}
}

// haveWaited counts that jobs have waited for their workers.
func (c *Core) haveWaited(d Moment) {
	for j := c.recovering.first; j != nil; j = j.next {
		if j.rare.waited > 0 {
			j.rare.waited += d
		}
	}
}

// awaitWorkers begins to count for jobs that run on no worker of this leader.
func (c *Core) awaitWorkers() {
	for j := c.recovering.first; j != nil; j = j.next {
		j.rare.waited = max(1, j.rare.waited)
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

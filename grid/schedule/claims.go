package schedule

import "github.com/batchfleet/batchfleet/grid/wire"

// Accept processes a worker's Accept: it has the job, and will renew the attempt.
func (c *Core) Accept(now Moment, id PeerID, jobID, attemptID wire.GUID) {
	c.at(now)
	if p := c.peers[id]; p != nil && p.group != nil {
		c.claim(p, wire.Running{JobID: jobID, AttemptID: attemptID})
	}
}

// Renew tells which attempts a worker runs, and how many jobs it may have been given over this connection. Some may have been given while
// a lower limit was on its way: then it has no credit. Without a Limit its credit stays as it is.
func (c *Core) Renew(now Moment, id PeerID, info wire.RenewInfo) {
	c.at(now)
	p := c.peers[id]
	if p == nil || p.group == nil {
		return
	}
	for _, r := range info.Running {
		c.claim(p, r)
	}
	if info.Limit == nil || *info.Limit < 0 {
		return
	}
	if credit := max(0, int64(*info.Limit)-p.assigned); credit <= int64(p.limit-len(p.running)) {
		p.credit = int(credit)
		c.place(p)
		c.heat(p.group)
	}
}

// claim extends an attempt that a worker runs. If it is not the current one, the worker gets Cancel with reason lost.
func (c *Core) claim(p *peer, r wire.Running) {
	if a := c.attemptOf(p, r.JobID, r.AttemptID); a != nil {
		a.accepted = true
		c.timers.set(&a.timer, c.now+c.cfg.Lease)
		return
	}
	switch j := c.jobs[r.JobID]; {
	case j == nil: // its result will be kept
	case j.untouched():
		c.takeOver(p, j, r.AttemptID)
	default:
		c.disown(p, r.JobID, r.AttemptID)
	}
}

// attemptOf returns an attempt of a worker if it is the current one, or nil.
func (c *Core) attemptOf(p *peer, jobID, attemptID wire.GUID) *attempt {
	j := c.jobs[jobID]
	if j == nil || j.run == nil || j.run.worker != p || p.features.accept && j.run.id != attemptID {
		return nil
	}
	return j.run
}

// untouched reports whether a job waits for its first attempt. A worker that runs such a job got it from a leader that has lost its state.
func (j *job) untouched() bool {
	return j.state == queued && j.attempts == 0 && !j.isArray() && (j.rare == nil || j.rare.avoid.IsZero())
}

// disown sends a worker Cancel with reason lost: the attempt is no longer its own.
func (c *Core) disown(p *peer, jobID, attemptID wire.GUID) {
	if p.features.cancel {
		c.emit(Effect{Op: CancelRun, Peer: p.id, Job: jobID, Attempt: attemptID, Reason: wire.ReasonLost})
	}
}

// adopt gives an attempt back to a worker that has connected again and still runs it: the leader was started again, or their connection was lost.
// Of a job that is not known the result will be kept.
func (c *Core) adopt(p *peer, r wire.Running) {
	j := c.jobs[r.JobID]
	if j == nil {
		return
	}
	c.uncount(j, r.AttemptID)
	switch {
	case j.run != nil && j.run.id == r.AttemptID && j.run.worker.worker == p.worker: // over a connection whose end is not known yet
		if j.run.worker != p {
			c.leaveWorker(j.run)
			c.takeOver(p, j, r.AttemptID)
		}
	case j.untouched(), j.wasWith(p, r.AttemptID):
		c.takeOver(p, j, r.AttemptID)
	default:
		c.disown(p, r.JobID, r.AttemptID)
	}
}

// takeOver makes an attempt that a worker runs the current one.
func (c *Core) takeOver(p *peer, j *job, attemptID wire.GUID) {
	c.outOfLine(j)
	p.credit = max(0, min(p.credit, p.limit-len(p.running)-1))
	a := c.begin(j, p, attemptID)
	a.accepted = true
	c.timers.set(&a.timer, c.now+c.cfg.Lease)
	c.Counts.Adopted++
	if j.canceled() {
		c.stop(j)
	}
}

// wasWith reports whether an attempt of a worker was the last one of a job that has not ended.
func (j *job) wasWith(p *peer, attemptID wire.GUID) bool {
	if !j.isOpen() || j.run != nil || j.isArray() || j.rare == nil {
		return false
	}
	return j.state == running && j.rare.attempt == attemptID || !p.worker.IsZero() && j.rare.avoid == p.worker
}

// HandBack queues a job again that its worker hands back. The attempt does not count.
func (c *Core) HandBack(now Moment, id PeerID, jobID, attemptID wire.GUID) {
	c.at(now)
	p := c.peers[id]
	if p == nil || p.group == nil {
		return
	}
	if a := c.attemptOf(p, jobID, attemptID); a != nil {
		c.handBack(a)
	}
}

func (c *Core) handBack(a *attempt) {
	j := a.job
	c.leaveWorker(a)
	j.more().avoid = a.worker.worker
	if j.canceled() {
		c.endCanceled(j)
		return
	}
	c.write(j, func(to Record, j *job) Record { return backRecord(to, j, Attempt{Reason: "handed back"}) })
	r := j.more()
	if r.handedBack < handBacksAtOnce {
		r.handedBack++
		c.delay(j, 0)
		return
	}
	c.delay(j, c.pause(int(j.attempts)))
}

// handBacksAtOnce is how often a job that was handed back is queued at once. After that there is a pause each time: a job that no worker can run
// must not keep them from others.
const handBacksAtOnce = 3

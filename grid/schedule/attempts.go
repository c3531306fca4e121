package schedule

import (
	"slices"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// assign starts an attempt at a job.
func (c *Core) assign(j *job, w *peer) {
	if j.attempts == 0 {
		c.observe(Waited, c.now-j.since)
	}
	a := &attempt{id: wire.NewGUID(), number: int(j.attempts) + 1}
	c.begin(j, a, w)
	w.credit--
	w.busy++
	w.assigned++
	c.served++
	w.turn = c.served
	timeout := c.pause(int(j.attempts))
	if !w.features.accept {
		timeout = c.plainTimeout(j)
	}
	c.timers.set(&a.timer, c.now+timeout)
	c.changed(w)
	e := Effect{Op: Assign, Peer: w.id, Job: j.id, Exec: j.line.exec.key.name, Client: j.line.client.name, Body: j.theBody()}
	if w.features.accept {
		e.Attempt = a.id
	}
	if of, index, ok := j.element(); ok && e.Body.Bytes == nil {
		e.Body = elementBody(of, j.id, index)
	}
	c.emit(e)
	c.Counts.Assigned++
	c.write(startRecord(j, a, w))
}

// begin notes that a worker has an attempt.
func (c *Core) begin(j *job, a *attempt, w *peer) {
	a.job, a.worker, a.began, a.place = j, w, c.now, len(w.running)
	a.timer.job = j
	j.state, j.run, j.since = running, a, c.now
	w.running = append(w.running, a)
	j.line.client.running++
	c.attempts++
}

// plainTimeout is how long a worker may have a job that does not say whether it still runs.
func (c *Core) plainTimeout(j *job) Moment {
	if ms := j.options().TimeoutMs; ms > 0 {
		return Moment(ms)*1e6 + c.cfg.Lease
	}
	return c.cfg.PlainTimeout
}

// pause is how long the leader waits for the accept of an attempt, or before the next attempt, when so many have failed: twice as long
// each time, a fifth more or less.
func (c *Core) pause(failed int) Moment {
	d := c.cfg.AcceptTimeout << min(failed, 20)
	if d > c.cfg.MaxTimeout || d <= 0 {
		d = c.cfg.MaxTimeout
	}
	return d - d/5 + Moment(c.cfg.Random.Int64N(int64(2*d/5)+1))
}

// leaveWorker takes an attempt from its worker. Its slot stays taken until the worker gives credit again.
func (c *Core) leaveWorker(a *attempt) {
	w, j := a.worker, a.job
	last := w.running[len(w.running)-1]
	w.running[a.place], last.place = last, a.place
	w.running[len(w.running)-1] = nil
	w.running = w.running[:len(w.running)-1]
	c.timers.stop(&a.timer)
	j.run = nil
	c.attempts--
	cl := j.line.client
	cl.running--
	c.release(cl)
	c.changed(w)
}

// lost ends an attempt whose worker is silent or has gone: the job is queued again, before others.
func (c *Core) lost(a *attempt, reason string, crashed bool) {
	j, w := a.job, a.worker
	if w.features.cancel && c.peers[w.id] == w {
		c.emit(Effect{Op: CancelRun, Peer: w.id, Job: j.id, Attempt: a.id, Reason: wire.ReasonLost})
	}
	c.leaveWorker(a)
	c.again(j, Attempt{Number: a.number, Worker: w.host, Reason: reason, At: c.now}, w.worker, crashed, 0)
}

// again queues a job again after an attempt that has not ended it, or gives it up.
func (c *Core) again(j *job, a Attempt, worker wire.GUID, crashed bool, pause Moment) {
	r := j.more()
	r.history = append(r.history, a)
	if len(r.history) > maxHistory {
		r.history = slices.Delete(r.history, 0, len(r.history)-maxHistory)
	}
	r.avoid, r.last = worker, a.Reason
	j.attempts++
	if crashed {
		j.crashes++
		c.Counts.Crashes++
	}
	switch limit := c.maxAttempts(j); {
	case r.cancel:
		c.endCanceled(j)
	case int(j.crashes) >= c.cfg.MaxCrashes:
		c.deadLetter(j, "it has lost "+jobs.Count(int(j.crashes), "worker")+"; the last: "+a.Worker)
	case int(j.attempts) >= limit:
		c.deadLetter(j, jobs.Count(int(j.attempts), "attempt")+" have failed; the last, on "+a.Worker+": "+a.Reason)
	default:
		c.write(backRecord(j, a))
		c.delay(j, pause)
	}
}

func (c *Core) maxAttempts(j *job) int {
	if n := j.options().MaxAttempts; n > 0 {
		return n
	}
	return c.cfg.MaxAttempts
}

// delay queues a job after a pause, before others.
func (c *Core) delay(j *job, pause Moment) {
	r := j.more()
	switch {
	case r.notAfter > 0 && c.now+pause > r.notAfter:
		c.expire(j)
	case pause <= 0:
		c.enqueue(j, true)
		c.watchExpiry(j)
	default:
		j.state, j.since = delayed, c.now
		c.timers.set(&r.timer, c.now+pause)
	}
}

func (c *Core) watchExpiry(j *job) {
	if j.rare != nil && j.rare.notAfter > 0 {
		c.timers.set(&j.rare.timer, j.rare.notAfter)
	}
}

// Accept tells that a worker has received a job and will say each few seconds that it runs.
func (c *Core) Accept(now Moment, id PeerID, jobID, attemptID wire.GUID) {
	c.at(now)
	p := c.peers[id]
	if p == nil || p.group == nil {
		return
	}
	if a := c.attemptOf(p, jobID, attemptID); a != nil {
		a.accepted = true
		c.timers.set(&a.timer, c.now+c.cfg.Lease)
		return
	}
	c.disown(p, jobID, attemptID)
}

// attemptOf returns the attempt that a worker means, if it is the one that counts.
func (c *Core) attemptOf(p *peer, jobID, attemptID wire.GUID) *attempt {
	j := c.jobs[jobID]
	if j == nil || j.run == nil || j.run.worker != p || p.features.accept && j.run.id != attemptID {
		return nil
	}
	return j.run
}

// disown tells a worker that an attempt is not its own any more.
func (c *Core) disown(p *peer, jobID, attemptID wire.GUID) {
	if p.features.cancel {
		c.emit(Effect{Op: CancelRun, Peer: p.id, Job: jobID, Attempt: attemptID, Reason: wire.ReasonLost})
	}
}

// Renew tells which attempts a worker runs, and how many jobs it may have been given over this connection.
func (c *Core) Renew(now Moment, id PeerID, info wire.RenewInfo) {
	c.at(now)
	p := c.peers[id]
	if p == nil || p.group == nil {
		return
	}
	p.cpu = info.CPU
	for _, r := range info.Running {
		if a := c.attemptOf(p, r.JobID, r.AttemptID); a != nil {
			a.accepted = true
			c.timers.set(&a.timer, c.now+c.cfg.Lease)
		} else {
			c.disown(p, r.JobID, r.AttemptID)
		}
	}
	if credit := int64(info.Limit) - p.assigned; credit >= 0 && credit <= int64(p.limit-len(p.running)) {
		p.credit = int(credit)
		p.busy = min(p.busy, p.limit-p.credit)
		c.changed(p)
	}
}

// adopt gives an attempt back to the worker that still runs it: the leader was started again, or their connection was lost.
func (c *Core) adopt(p *peer, r wire.Running) {
	j := c.jobs[r.JobID]
	switch {
	case j == nil || j.state == ended || j.state == dead:
		if j != nil || c.now >= c.recoverUntil {
			c.disown(p, r.JobID, r.AttemptID)
		}
		return // of a job that is not known the result is kept
	case j.state == running && j.run == nil: // of the leader before
		delete(c.recovering, j.id)
		j.line.client.running-- // begin counts it again
	case j.state == queued && j.attempts > 0 && j.more().avoid == p.worker:
		c.dequeue(j)
		c.timers.stop(&j.rare.timer)
	case j.state == delayed && j.more().avoid == p.worker:
		c.timers.stop(&j.rare.timer)
	default:
		c.disown(p, r.JobID, r.AttemptID)
		return
	}
	a := &attempt{id: r.AttemptID, number: int(j.attempts) + 1, accepted: true}
	c.begin(j, a, p)
	p.busy++
	c.timers.set(&a.timer, c.now+c.cfg.Lease)
	c.changed(p)
	c.Counts.Adopted++
	c.write(startRecord(j, a, p))
}

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
		c.recoverUntil = 0
		for _, j := range c.recovering {
			c.unclaimed(j)
		}
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
		c.watchExpiry(j)
	case j.state == queued:
		c.dequeue(j)
		c.expire(j)
	}
}

// unclaimed queues a job again that was running when the leader before ended, and that no worker has.
func (c *Core) unclaimed(j *job) {
	delete(c.recovering, j.id)
	j.line.client.running--
	c.release(j.line.client)
	host, worker := "a worker", wire.GUID{}
	if j.rare != nil {
		host, worker = j.rare.last, j.rare.avoid
	}
	c.again(j, Attempt{Number: int(j.attempts) + 1, Worker: host, Reason: "its worker did not come back after the leader was started again", At: c.now}, worker, false, 0)
}

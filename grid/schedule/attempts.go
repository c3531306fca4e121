package schedule

import (
	"slices"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// attempt is an attempt that a worker has in hand.
type attempt struct {
	id       wire.GUID
	job      *job
	worker   *peer
	place    int // its index in worker.running
	number   int
	accepted bool
	began    Moment
	timer    timer
}

// assign gives a job to a worker, as a new attempt.
func (c *Core) assign(j *job, w *peer) {
	if j.attempts == 0 {
		c.observe(Waited, c.now-j.since)
	}
	w.credit--
	w.assigned++
	c.turns++
	w.turn = c.turns
	a := c.begin(j, w, wire.NewGUID())
	timeout := c.pause(int(j.attempts))
	if !w.features.accept {
		timeout = c.plainTimeout(j)
	}
	c.timers.set(&a.timer, c.now+timeout)
	e := Effect{Op: Assign, Peer: w.id, Job: j.id, Exec: j.line.exec.key.name, Client: j.line.client.name, Body: j.theBody(), Number: a.number, Checkpoint: j.checkpoint()}
	if w.features.accept {
		e.Attempt = a.id
	}
	if of, index, ok := j.element(); ok {
		e.Body = elementBody(of, j.id, index)
	}
	c.emit(e)
	c.Counts.Assigned++
}

// begin records that a worker has an attempt of a job, which is in no line.
func (c *Core) begin(j *job, w *peer, id wire.GUID) *attempt {
	a := &attempt{id: id, job: j, worker: w, began: c.now, place: len(w.running), number: int(j.attempts) + 1}
	a.timer.job = j
	c.set(j, running)
	j.run, j.since = a, c.now
	w.running = append(w.running, a)
	j.line.client.running++
	c.attempts++
	c.place(w)
	c.write(j, startRecord)
	return a
}

// plainTimeout is how long a worker without Accept and Renew may have a job.
func (c *Core) plainTimeout(j *job) Moment {
	if d := j.options().timeout; d > 0 {
		return d + c.cfg.Lease
	}
	return c.cfg.PlainTimeout
}

// pause is how long the leader waits for Accept, or before the next attempt, after some failed attempts: it doubles with each, and has a jitter of
// 20 %.
func (c *Core) pause(failed int) Moment {
	d := c.cfg.AcceptTimeout << min(failed, 20)
	if d > c.cfg.MaxTimeout || d <= 0 {
		d = c.cfg.MaxTimeout
	}
	return d - d/5 + Moment(c.cfg.Random.Int64N(int64(2*d/5)+1))
}

// leaveWorker takes an attempt from its worker. The worker's credit does not change: its slot counts as taken until it gives credit again.
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
	c.place(w)
}

// lost ends an attempt that is lost: the job is queued again, before others.
func (c *Core) lost(a *attempt, reason string, crashed bool) {
	j, w := a.job, a.worker
	if c.peers[w.id] == w {
		c.disown(w, j.id, a.id)
	}
	c.leaveWorker(a)
	c.again(j, Attempt{Number: a.number, Worker: w.host, Reason: reason, At: c.now}, w.worker, crashed, 0)
	if crashed {
		j.rare.cutOff = a.id
	}
}

// uncount takes back that an attempt was lost when a connection ended: its worker has come back with it, although another worker may have
// the job by now.
func (c *Core) uncount(j *job, attemptID wire.GUID) {
	if !j.isOpen() || j.rare == nil || j.rare.cutOff != attemptID || attemptID.IsZero() {
		return
	}
	j.rare.cutOff = wire.GUID{}
	j.attempts--
	j.crashes--
	c.note(j)
	c.write(j, func(to Record, j *job) Record { return backRecord(to, j, Attempt{Reason: "its worker has come back"}) })
	if j.run != nil {
		c.write(j, startRecord)
	}
}

// again queues a job after an attempt that has not ended it, or makes it a dead letter.
func (c *Core) again(j *job, a Attempt, worker wire.GUID, crashed bool, pause Moment) {
	r, result := j.more(), a.ended
	a.ended = nil
	r.history = append(r.history, a)
	if len(r.history) > maxHistory {
		r.history = slices.Delete(r.history, 0, len(r.history)-maxHistory)
	}
	r.avoid, r.last, r.cutOff = worker, a.Reason, wire.GUID{}
	j.attempts++
	if crashed {
		j.crashes++
		c.Counts.Crashes++
	}
	switch limit := c.maxAttempts(j); {
	case r.cancel:
		c.endCanceled(j)
	case int(j.crashes) >= c.cfg.MaxCrashes:
		c.giveUp(j, "it has lost "+jobs.Count(int(j.crashes), "worker")+"; the last: "+a.Worker, result)
	case j.attempts == 1 && limit == 1:
		c.giveUp(j, "its only attempt, on "+a.Worker+", has failed: "+a.Reason, result)
	case int(j.attempts) >= limit:
		c.giveUp(j, jobs.Count(int(j.attempts), "attempt")+" have failed; the last, on "+a.Worker+": "+a.Reason, result)
	default:
		c.write(j, func(to Record, j *job) Record { return backRecord(to, j, a) })
		c.delay(j, pause)
	}
}

func (c *Core) maxAttempts(j *job) int {
	if n := j.options().maxAttempts; n > 0 {
		return int(n)
	}
	return c.cfg.MaxAttempts
}

// delay queues a job before others, after a pause.
func (c *Core) delay(j *job, pause Moment) {
	r := j.more()
	switch {
	case r.notAfter > 0 && c.now+pause > r.notAfter:
		c.expire(j)
	case pause <= 0:
		c.enqueue(j, true)
	default:
		c.set(j, delayed)
		j.since = c.now
		c.timers.set(&r.timer, c.now+pause)
	}
}

// watchExpiry sets the timer that ends a queued job after NotAfter.
func (c *Core) watchExpiry(j *job) {
	if j.rare != nil && j.rare.notAfter > 0 {
		c.timers.set(&j.rare.timer, j.rare.notAfter+1)
	}
}

// unclaimed queues a job again that was running when an earlier leader ended, and that no worker has claimed.
func (c *Core) unclaimed(j *job) {
	c.outOfLine(j)
	a := Attempt{
		Number: int(j.attempts) + 1, Worker: j.rare.last, At: c.now, Reason: "its worker did not come back after the leader was started again",
	}
	c.again(j, a, j.rare.avoid, false, 0)
}

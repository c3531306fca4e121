package schedule

import (
	"encoding/json"
	"fmt"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// Ended is what a worker tells of a job that has ended with it.
type Ended struct {
	Client, Exec string // as the result has them, for a job that is not known
	OK           bool
	Reason       string // of a failure
	Stderr       string // the end of it, of a failure
	Body         Body   // the whole result
}

// Ack takes the result of a job. The first success counts, whoever it comes from; a failure counts if no other attempt is under way or to come.
func (c *Core) Ack(now Moment, id PeerID, jobID, attemptID wire.GUID, r Ended) {
	c.at(now)
	p := c.peers[id]
	if p == nil || p.group == nil {
		return
	}
	j := c.jobs[jobID]
	if j != nil && r.Body.Size > 0 && r.Client != j.line.client.name {
		// It may be too large for a frame with the name of the client that gets it.
		c.unstore(r.Body)
		r = Ended{Reason: wire.ReasonError, Stderr: fmt.Sprintf("its worker has sent a result for the client %q", r.Client)}
		c.emit(Effect{Op: ErrorTo, Peer: id, Job: jobID, Code: wire.CodeInvalid, Reason: r.Stderr})
	}
	switch {
	case j == nil:
		if !c.orphan(jobID, r) {
			return // it may come again
		}
	case !j.isOpen() || j.isArray():
		c.Counts.DuplicateResults++
		c.unstore(r.Body)
	case c.counts(p, j, attemptID, r):
		c.take(p, j, r)
	default:
		c.unstore(r.Body)
		if !p.features.accept {
			c.Counts.StrangerAcks++
			return
		}
		c.Counts.LateResults++
	}
	if p.features.resultAck {
		c.emit(Effect{Op: ResultAck, Peer: id, Job: jobID})
	}
}

// counts reports whether a result decides a job that is open.
func (c *Core) counts(p *peer, j *job, attemptID wire.GUID, r Ended) bool {
	if c.attemptOf(p, j.id, attemptID) != nil {
		return true
	}
	if attemptID.IsZero() {
		return false // it does not say which attempt it means
	}
	if r.OK {
		return true
	}
	if j.state == running {
		return j.run == nil && j.rare.attempt == attemptID
	}
	return j.untouched() // the leader before this one has ended before it wrote that it was started
}

// take ends a job with a result, or an attempt that is to be made again.
func (c *Core) take(p *peer, j *job, r Ended) {
	number := int(j.attempts) + 1
	if a := j.run; a != nil {
		number = a.number
		c.observe(Ran, c.now-a.began)
		if a.worker != p {
			c.Counts.LateResults++
			c.disown(a.worker, j.id, a.id)
		}
		c.leaveWorker(a)
	}
	if !r.OK && !j.canceled() && j.options().retries(r.Reason) {
		c.outOfLine(j)
		c.unstore(r.Body)
		c.Counts.Retried++
		c.again(j, Attempt{Number: number, Worker: p.host, Reason: r.Reason + tail(r.Stderr), At: c.now}, p.worker, false, c.pause(int(j.attempts)))
		return
	}
	state := jobs.Succeeded
	switch {
	case r.OK:
	case r.Reason == wire.ReasonCanceled || j.canceled():
		state = jobs.Canceled
	default:
		state = jobs.Failed
		j.more().last = r.Reason
	}
	if r.Body.Size == 0 { // what the worker has sent cannot be read
		r.Body = c.ownResult(j, r.Reason, r.Stderr)
	}
	c.end(j, state, r.Body)
}

func tail(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// outOfLine takes an open job that is with no worker from where it waits.
func (c *Core) outOfLine(j *job) {
	switch {
	case j.state == queued:
		c.dequeue(j)
		j.state = delayed
	case j.list == &c.recovering:
		j.leave()
		j.state = delayed
		j.line.client.running--
		c.release(j.line.client)
	}
	if j.rare != nil {
		c.timers.stop(&j.rare.timer)
	}
}

// end ends a job that is with no worker, and offers the result to its client.
func (c *Core) end(j *job, outcome jobs.State, result Body) {
	c.outOfLine(j)
	c.trimLog(j, maxEndedLog)
	c.untie(j)
	c.unstore(j.theBody())
	c.setBody(j, result)
	j.state, j.outcome, j.since = ended, outcome, c.now
	c.open--
	c.observe(Took, c.now-j.born)
	c.write(j, endRecord)
	switch outcome {
	case jobs.Succeeded:
		c.Counts.Succeeded++
	case jobs.Canceled:
		c.Counts.Canceled++
	default:
		c.Counts.Failed++
	}
	c.closed(j)
}

// closed offers the result of a job to its client, and counts the job in its array.
func (c *Core) closed(j *job) {
	of, _, ok := j.element()
	if ok {
		j.owner = of.job.owner
	}
	c.owe(j)
	if ok {
		j.rare.array = nil
		c.elementEnded(of, j)
	}
}

// orphan keeps the result of a job that is not known, such as one of a leader that has lost its state. It reports false if there is no room.
func (c *Core) orphan(id wire.GUID, r Ended) bool {
	if wire.CheckClientID(r.Client) != nil || wire.CheckExecName(r.Exec) != nil {
		c.unstore(r.Body)
		return true
	}
	if c.bytes > c.cfg.MaxBytes {
		c.unstore(r.Body)
		return false
	}
	c.Counts.Orphans++
	j := &job{id: id, line: c.line(r.Client, r.Exec, false), state: ended, outcome: jobs.Succeeded, born: c.now, since: c.now}
	if !r.OK {
		j.outcome = jobs.Failed
		j.more().last = r.Reason
	}
	c.setBody(j, r.Body)
	c.add(j)
	c.write(j, endRecord)
	c.owe(j)
	return true
}

// endWith ends a job without a result of a worker.
func (c *Core) endWith(j *job, outcome jobs.State, reason, message string) {
	if outcome == jobs.Failed {
		j.more().last = reason
	}
	c.end(j, outcome, c.ownResult(j, reason, message))
}

// ownResult is the result of a job that has none of a worker.
func (c *Core) ownResult(j *job, reason, message string) Body {
	r := wire.JobResult{
		JobID: j.id, ClientID: j.line.client.name, ExecName: j.line.exec.key.name, Status: wire.Failed, Stderr: message, Reason: reason, Message: message,
		Attempt: int(j.attempts),
	}
	if j.rare != nil && j.rare.index >= 0 {
		r.ArrayID, r.Index = &j.rare.arrayID, &j.rare.index
	}
	if reason == "" {
		r.Status, r.Stderr = wire.OK, ""
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic("schedule: " + err.Error()) // it is made of texts and numbers
	}
	return Body{Bytes: text, Size: len(text)}
}

// expire ends a job that has come too late, and is in no line. Of an array, no more jobs are made.
func (c *Core) expire(j *job) {
	c.Counts.Expired++
	if j.isArray() {
		j.state = parent
		j.rare.last = wire.ReasonExpired
		c.endArray(j.rare.array)
		return
	}
	c.endWith(j, jobs.Failed, wire.ReasonExpired, "it was not started before NotAfter")
}

// Cancel stops the job of a client, or of any if no name is given. It reports whether the job is known and open.
func (c *Core) Cancel(now Moment, clientName string, id wire.GUID) bool {
	c.at(now)
	j := c.jobs[id]
	if j == nil || !j.isOpen() || clientName != "" && j.line.client.name != clientName {
		return false
	}
	c.cancel(j, "it was asked to stop")
	return true
}

func (c *Core) cancel(j *job, why string) {
	if !j.isOpen() || j.canceled() {
		return
	}
	r := j.more()
	r.cancel, r.last = true, why
	c.write(j, cancelRecord)
	switch {
	case j.isArray():
		c.cancelArray(r.array)
	case j.state != running:
		c.endCanceled(j)
	case j.run != nil: // else its worker is told when it comes back
		c.stop(j)
	}
}

// stop ends a job that is with a worker, or asks the worker to end it.
func (c *Core) stop(j *job) {
	w := j.run.worker
	if w.features.cancel {
		c.emit(Effect{Op: CancelRun, Peer: w.id, Job: j.id, Attempt: j.run.id, Reason: wire.ReasonCanceled})
		return
	}
	c.leaveWorker(j.run)
	c.endCanceled(j)
}

func (c *Core) endCanceled(j *job) {
	c.endWith(j, jobs.Canceled, wire.ReasonCanceled, j.rare.last)
}

package schedule

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// Ended is the result that a worker has sent.
type Ended struct {
	Client, Exec string // of the result, for a job that is not known
	OK           bool
	Reason       string // of a failure
	Message      string // the same for people; empty if the worker has sent none
	Stdout       string // the end of what the program has written, after a failure
	Stderr       string
	Body         Body // the whole result
}

// Ack processes the result of a job. The first success counts, of any attempt; a failure counts only if it is of the current attempt.
func (c *Core) Ack(now Moment, id PeerID, jobID, attemptID wire.GUID, r Ended) {
	c.at(now)
	p := c.peers[id]
	if p == nil || p.group == nil {
		return
	}
	j := c.jobs[jobID]
	if j != nil && r.Body.Size > 0 && (r.Client != j.line.client.name || r.Exec != j.line.exec.key.name) {
		// It may be too large for a frame with the name of the client that gets it, or come from a worker that may not run this exec.
		c.unstore(r.Body)
		r = Ended{Reason: wire.ReasonError, Message: fmt.Sprintf("its worker has sent the result of a job of %s for the client %q", r.Exec, r.Client)}
		c.emit(Effect{Op: ErrorTo, Peer: id, Job: jobID, Code: wire.CodeInvalid, Reason: r.Message})
	}
	switch {
	case j == nil:
		if !c.orphan(jobID, r) {
			return // no ResultAck: the worker sends it again later
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
		return false // it is unknown which attempt it is of
	}
	if r.OK {
		return true
	}
	if j.state == running {
		return j.run == nil && j.rare.attempt == attemptID
	}
	return j.untouched() // an earlier leader has started it, and ended before it wrote that down
}

// take ends a job with a result, or only the attempt if the job runs again after such a failure.
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
		failure := r // r itself would be allocated for each success
		c.again(j, Attempt{Number: number, Worker: p.host, Reason: cmp.Or(r.Message, r.Reason), At: c.now, ended: &failure}, p.worker, false, c.pause(int(j.attempts)))
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
	if r.Body.Size == 0 { // the worker's result cannot be read
		r.Body = c.ownResult(j, r.Reason, r.Message, nil)
	}
	c.end(j, state, r.Body)
}

// outOfLine takes an open job, which no worker has, out of the queue or list that it waits in.
func (c *Core) outOfLine(j *job) {
	switch {
	case j.state == queued:
		c.dequeue(j)
		c.set(j, delayed)
	case j.list == &c.recovering:
		j.leave()
		c.set(j, delayed)
		j.line.client.running--
		c.release(j.line.client)
	}
	if j.rare != nil {
		c.timers.stop(&j.rare.timer)
	}
}

// end ends a job, which no worker has, and sends or keeps the result for its client.
func (c *Core) end(j *job, outcome jobs.State, result Body) {
	c.outOfLine(j)
	c.trimLog(j, maxEndedLog)
	c.untie(j)
	c.unstore(j.theBody())
	c.setBody(j, result)
	c.become(j, ended, outcome)
	j.since = c.now
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

// closed sends or keeps the result of a job for its client, and counts the job in its array.
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

// orphan keeps the result of a job that is not known, for instance because the leader has lost its state. It reports false if memory is full.
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
	c.end(j, outcome, c.ownResult(j, reason, message, nil))
}

// ownResult returns a result for a job that has none of a worker: OK if reason is empty. It has the output of the last attempt, if that is given.
func (c *Core) ownResult(j *job, reason, message string, last *Ended) Body {
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
	if last != nil {
		r.Stdout, r.Stderr = last.Stdout, cmp.Or(last.Stderr, message)
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic("schedule: " + err.Error()) // texts and numbers can always be encoded
	}
	return Body{Bytes: text, Size: len(text)}
}

// expire ends a job that was not started before NotAfter, and is in no line. An array makes no more jobs.
func (c *Core) expire(j *job) {
	c.Counts.Expired++
	if j.isArray() {
		c.set(j, parent)
		j.rare.last = wire.ReasonExpired
		c.endArray(j.rare.array)
		return
	}
	c.endWith(j, jobs.Failed, wire.ReasonExpired, "it was not started before NotAfter")
}

// Cancel cancels a job of a client, or of any client if the name is empty. It reports whether there is such a job that has not ended.
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
	case j.run != nil: // otherwise its worker gets Cancel when it comes back
		c.stop(j)
	}
}

// stop asks the worker to cancel a job, or ends the job if the worker does not know Cancel.
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

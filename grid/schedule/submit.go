package schedule

import (
	"fmt"
	"math"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Submission is a request to run a job.
type Submission struct {
	ID       wire.GUID
	Exec     string
	Options  wire.Options
	NotAfter Moment // 0 for none
	Body     Body   // of an array it has the bytes
	Digest   uint64 // of the request
	First    int64  // of an array, both included
	Last     int64
}

// Submit queues a job of a client. A job that is known is not queued again; if it has ended, its result is sent again.
func (c *Core) Submit(now Moment, id PeerID, s Submission) {
	c.at(now)
	p := c.peers[id]
	if p == nil || p.client == nil {
		return
	}
	if j := c.jobs[s.ID]; j != nil {
		c.submitAgain(p, j, s)
		return
	}
	if code, reason := c.refusal(s); code != "" {
		c.Counts.Refused++
		c.unstore(s.Body)
		c.emit(notTaken(p, s, code, reason))
		return
	}
	j, err := c.newJob(p.client.name, s, s.Options.Array != "", c.now)
	if err != nil {
		c.Counts.Refused++
		c.unstore(s.Body)
		c.emit(notTaken(p, s, wire.CodeInvalid, err.Error()))
		return
	}
	j.owner = id
	c.write(j, submitRecord)
	c.Counts.Submitted++
	c.tie(j, p)
	if p.features.submitAck {
		c.emit(Effect{Op: SubmitAck, Peer: id, Job: s.ID})
	}
}

// notTaken returns the effect that tells a client that its job is refused.
func notTaken(p *peer, s Submission, code, reason string) Effect {
	return Effect{Op: ErrorTo, Peer: p.id, Job: s.ID, Client: p.client.name, Exec: s.Exec, Code: code, Reason: reason}
}

// refusal returns why a job is refused because of a limit; the code is empty if it is not.
func (c *Core) refusal(s Submission) (code, reason string) {
	switch {
	case c.open >= c.cfg.MaxJobs:
		return wire.CodeBusy, fmt.Sprintf("%d jobs are queued or running, at most %d: submit it later", c.open, c.cfg.MaxJobs)
	case c.bytes+s.Body.memory() > c.cfg.MaxBytes:
		return wire.CodeBusy, fmt.Sprintf("requests and results take %d MiB of memory, at most %d: submit it later", c.bytes>>20, c.cfg.MaxBytes>>20)
	case c.busyExecs >= c.cfg.MaxExecs && !c.isBusy(execKey{s.Exec, s.Options.Array != ""}):
		return wire.CodeBusy, fmt.Sprintf("jobs of %d execs are queued, at most %d: submit it later", c.busyExecs, c.cfg.MaxExecs)
	}
	return "", ""
}

func (c *Core) isBusy(key execKey) bool {
	e := c.execs[key]
	return e != nil && e.queued > 0
}

// maxMoment is in the far future; sums of a few do not overflow.
const maxMoment = math.MaxInt64 / 4

// newJob queues a job. If array is true it is assigned only to workers that can run elements. It is an error if the request of an array cannot be read.
func (c *Core) newJob(clientName string, s Submission, array bool, born Moment) (*job, error) {
	j := &job{id: s.ID, digest: fold(s.Digest), born: born}
	if opts := optionsOf(&s.Options); opts != noOptions || s.NotAfter != 0 || s.Options.Array != "" {
		r := j.more()
		r.opts, r.notAfter = opts, min(s.NotAfter, maxMoment)
		if s.Options.Array != "" {
			a, err := newArray(j, s)
			if err != nil {
				return nil, err
			}
			r.array = a
		}
	}
	c.setBody(j, s.Body)
	j.state = queued
	j.line = c.line(clientName, s.Exec, array)
	c.add(j)
	c.enqueue(j, false)
	return j, nil
}

// fold shortens a digest. Only 0, which stands for no digest, becomes 0.
func fold(digest uint64) uint32 {
	if digest == 0 {
		return 0
	}
	return max(1, uint32(digest^digest>>32)) //nolint:gosec // half of it is enough to tell two requests with one id apart
}

// submitAgain answers a submission of a job that is known.
func (c *Core) submitAgain(p *peer, j *job, s Submission) {
	c.Counts.Duplicates++
	c.unstore(s.Body) // it is stored already
	theirs := j.line.client.name != p.client.name
	if theirs || j.digest != 0 && s.Digest != 0 && j.digest != fold(s.Digest) {
		e := notTaken(p, s, wire.CodeConflict, "another job has this id: use a new one")
		if !theirs {
			e.Client, e.Exec = "", "" // the result of the first one will come
		}
		c.emit(e)
		return
	}
	before := c.peers[j.owner]
	j.owner = p.id
	if p.features.submitAck {
		c.emit(Effect{Op: SubmitAck, Peer: p.id, Job: s.ID})
	}
	if p.features.own && s.Options.Array != "" {
		c.claimElements(p, j)
	}
	if j.isOpen() {
		c.tie(j, p)
		return
	}
	c.owe(j)
	if before != nil && before.client == p.client { // it has room for another result
		c.deliver(before)
	}
}

// claimElements sends waiting results of an array's elements over a connection with the feature own that has submitted the array again.
func (c *Core) claimElements(p *peer, array *job) {
	for j := p.client.waiting.first; j != nil; {
		next := j.next
		if j.rare != nil && j.rare.index >= 0 && j.rare.arrayID == array.id {
			j.owner = p.id
			c.toDeliver(j)
		}
		j = next
	}
	c.deliver(p)
}

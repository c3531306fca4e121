package schedule

import (
	"fmt"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Submission is a request to run a job.
type Submission struct {
	ID       wire.GUID
	Exec     string
	Options  wire.Options
	NotAfter Moment // 0 for none
	Body     Body
	Digest   uint64 // of the request
	First    int64  // of an array, both included
	Last     int64
}

// Submit queues a job of the client of a connection. A job that is known is not queued again: one that has ended is answered with its result.
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
	if code, reason := c.refusal(p.client, s); code != "" {
		c.Counts.Refused++
		c.unstore(s.Body)
		c.emit(Effect{Op: ErrorTo, Peer: id, Job: s.ID, Code: code, Reason: reason})
		return
	}
	j, err := c.newJob(p.client.name, s)
	if err != nil {
		c.emit(Effect{Op: ErrorTo, Peer: id, Job: s.ID, Code: wire.CodeInvalid, Reason: err.Error()})
		return
	}
	j.owner = id
	c.write(submitRecord(j))
	c.Counts.Submitted++
	if s.Options.OnDisconnect != "" {
		j.more().tied = true
		if p.tied == nil {
			p.tied = map[*job]bool{}
		}
		p.tied[j] = true
	}
	if p.features.submitAck {
		c.emit(Effect{Op: SubmitAck, Peer: id, Job: s.ID})
	}
}

// refusal returns why a job is not taken.
func (c *Core) refusal(cl *client, s Submission) (code, reason string) {
	switch {
	case c.open >= c.cfg.MaxJobs:
		return wire.CodeBusy, fmt.Sprintf("%d jobs are queued or running, at most %d: submit it later", c.open, c.cfg.MaxJobs)
	case c.bytes+s.Body.memory() > c.cfg.MaxBytes:
		return wire.CodeBusy, fmt.Sprintf("requests and results take %d MiB of memory, at most %d: submit it later", c.bytes>>20, c.cfg.MaxBytes>>20)
	case len(c.execs) >= c.cfg.MaxExecs && c.execs[execKey{s.Exec, s.Options.Array != ""}] == nil:
		return wire.CodeBusy, fmt.Sprintf("jobs of %d execs are queued, at most %d: submit it later", len(c.execs), c.cfg.MaxExecs)
	}
	return "", ""
}

// newJob queues a job. An error means that it is an array whose request cannot be read.
func (c *Core) newJob(clientName string, s Submission) (*job, error) {
	j := &job{id: s.ID, digest: s.Digest, line: c.line(clientName, s.Exec, s.Options.Array != "")}
	if s.Options.TimeoutMs != 0 || s.Options.MaxAttempts != 0 || s.Options.Priority != 0 || s.NotAfter != 0 || len(s.Options.RetryOn) > 0 || s.Options.Array != "" {
		r := j.more()
		r.notAfter = s.NotAfter
		r.opts = wire.Options{
			TimeoutMs: s.Options.TimeoutMs, MaxAttempts: s.Options.MaxAttempts, Priority: s.Options.Priority, RetryOn: s.Options.RetryOn,
			Array: s.Options.Array, NotAfter: s.Options.NotAfter, // what matters here; the others are in the request
		}
		if s.Options.Array != "" {
			a, err := newArray(j, s)
			if err != nil {
				return nil, err
			}
			r.array = a
		}
	}
	c.setBody(j, s.Body)
	j.state, j.born = queued, c.now
	c.add(j)
	c.enqueue(j, false)
	c.watchExpiry(j)
	return j, nil
}

// submitAgain answers the request for a job that is known.
func (c *Core) submitAgain(p *peer, j *job, s Submission) {
	c.Counts.Duplicates++
	c.unstore(s.Body) // it is stored already
	if j.line.client.name != p.client.name || j.digest != 0 && s.Digest != 0 && j.digest != s.Digest {
		c.emit(Effect{Op: ErrorTo, Peer: p.id, Job: s.ID, Code: wire.CodeConflict, Reason: "another job has this id: use a new one"})
		return
	}
	j.owner = p.id
	if p.features.submitAck {
		c.emit(Effect{Op: SubmitAck, Peer: p.id, Job: s.ID})
	}
	if j.state == ended || j.state == dead {
		c.toDeliver(j)
		c.deliver(p)
	}
}

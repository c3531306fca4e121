package schedule

import (
	"fmt"
	"math"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Replay applies a record to the state. All records of a journal are replayed, in order, before the first event, and then [Core.Recovered] is called.
// If records of a job are lost, the others are applied as far as possible. It is an error if a record cannot be read.
func (c *Core) Replay(record []byte) error {
	c.replaying = true
	defer func() { c.replaying = false }()
	r := reading{rest: record}
	kind := r.take(1)
	if r.bad {
		return errRecord
	}
	var err error
	switch kind[0] {
	case recEpoch:
		c.replayEpoch(&r)
	case recSubmit:
		err = c.replaySubmit(&r)
	case recStart:
		c.replayStart(&r)
	case recBack:
		c.replayBack(&r)
	case recEnd:
		c.replayEnd(&r)
	case recDead:
		c.replayDead(&r)
	case recCap:
		if name, n := r.text(), r.small(wire.MaxClientCap); !r.bad {
			cl := c.client(name)
			cl.cap, cl.known = max(1, int(n)), true
		}
	case recArray:
		c.replayArray(&r)
	case recPause:
		if name, at := r.text(), r.number(); !r.bad {
			c.setPaused(name, at)
		}
	case recWaited:
		c.haveWaited(Moment(r.small(int64(maxMoment))))
	default:
		c.replayID(kind[0], &r)
	}
	if r.bad && err == nil {
		err = fmt.Errorf("%w: kind %d", errRecord, kind[0])
	}
	return err
}

func (c *Core) replayEpoch(r *reading) {
	c.shift = Moment(r.number() - c.cfg.Epoch.UnixNano())
	c.awaitWorkers()
}

func (c *Core) replaySubmit(r *reading) error {
	s := Submission{ID: r.guid()}
	digest := uint32(r.small(math.MaxUint32))
	born, clientName := r.moment(c), r.name(&c.names[0])
	s.Exec = r.name(&c.names[1])
	p := r.place()
	opts := r.options(c, &s)
	s.Body = r.body()
	if r.bad || c.jobs[s.ID] != nil {
		return nil
	}
	j, err := c.newJob(clientName, s, s.Options.Array != "" || p.index >= 0, born)
	if err != nil {
		return fmt.Errorf("%w: array %s: %w", errRecord, s.ID, err)
	}
	if opts != noOptions {
		j.more().opts = opts
	}
	if p.index >= 0 {
		j.more().arrayID, j.more().index = p.array, p.index
	}
	j.since, j.digest = born, digest
	return nil
}

// options reads options, and sets those in the submission that newJob uses.
func (r *reading) options(c *Core, s *Submission) (o options) {
	has := r.small(optionsEnd - 1)
	if has == 0 {
		return o
	}
	o.retryExit, o.retryTimeout, o.tie = has&hasRetryExit != 0, has&hasRetryTimeout != 0, has&hasTie != 0
	o.timeout, o.maxAttempts = Moment(r.small(int64(wire.MaxTimeout))), uint8(r.small(wire.MaxAttempts))
	o.priority = int8(r.small(2*wire.MaxPriority) - wire.MaxPriority)
	s.Options.Priority = int(o.priority)
	if r.small(1) > 0 {
		s.NotAfter = max(1, r.shifted(c))
	}
	if has&hasArray != 0 {
		s.First, s.Last = r.number(), r.number()
		s.Options.Array = "array"
	}
	return o
}

// placed returns a job; an element of an open array is made if it is not there.
func (c *Core) placed(id wire.GUID, p place) *job {
	if j := c.jobs[id]; j != nil || p.index < 0 || p.counted {
		return j
	}
	of := c.jobs[p.array]
	if of == nil || !of.isArray() || !of.isOpen() {
		return nil
	}
	a := of.rare.array
	if p.index < a.first || p.index > a.last || wire.ElementID(p.array, p.index) != id {
		return nil
	}
	c.skipKnown(a)
	e := c.element(a, p.index)
	c.madeAll(a)
	c.runs(e)
	return e
}

// runs records that a job was running when an earlier leader ended.
func (c *Core) runs(j *job) {
	c.set(j, running)
	j.since = c.now
	c.recovering.pushBack(j)
	j.line.client.running++
}

func (c *Core) replayStart(r *reading) {
	id, attemptID, worker, host := r.guid(), r.guid(), r.guid(), r.text()
	j := c.placedOpen(id, r)
	if j == nil {
		return
	}
	if j.state != running {
		c.outOfLine(j)
		c.runs(j)
	}
	m := j.more()
	m.attempt, m.avoid, m.last, m.waited = attemptID, worker, host, Moment(r.small(int64(maxMoment)))
}

func (c *Core) replayBack(r *reading) {
	id, avoid := r.guid(), r.guid()
	attempts, crashes, last := r.tried(c)
	j := c.placedOpen(id, r)
	if j == nil {
		return
	}
	c.outOfLine(j)
	j.setTried(attempts, crashes, last)
	j.rare.avoid, j.rare.last = avoid, last.Reason
	c.enqueue(j, true)
}

func (c *Core) replayEnd(r *reading) {
	id, outcome, born, since, digest := r.guid(), r.outcome(), r.moment(c), r.moment(c), uint32(r.small(math.MaxUint32))
	clientName, execName, last := r.name(&c.names[0]), r.name(&c.names[1]), r.text()
	p := r.place()
	b := r.body()
	if r.bad {
		return
	}
	j := c.placed(id, p)
	switch {
	case j == nil:
		j = &job{id: id, digest: digest, line: c.line(clientName, execName, p.index >= 0), state: ended, outcome: outcome, born: born}
		if p.index >= 0 {
			j.more().arrayID, j.more().index = p.array, p.index
		}
		c.setBody(j, b)
		c.add(j)
		c.owe(j)
	case !j.isOpen(): // an array has ended with its last element, or a job when it was canceled: by the clock of the replay
		j.since = since
		return
	default:
		c.end(j, outcome, b)
	}
	j.since = since
	if last != "" || j.rare != nil {
		j.more().last = last
	}
}

func (c *Core) replayDead(r *reading) {
	id, since, reason := r.guid(), r.moment(c), r.text()
	attempts, crashes, last := r.tried(c)
	j := c.placedOpen(id, r)
	b := r.body()
	if r.bad || j == nil {
		return
	}
	if h := j.more().history; len(h) > 0 && h[len(h)-1] == last { // a checkpoint has told it already
		last.Number = 0
	}
	j.setTried(attempts, crashes, last)
	c.deadLetter(j, reason, b)
	j.since = since
}

// placedOpen reads the place of a job and returns the job, or nil if it has ended or is an array.
func (c *Core) placedOpen(id wire.GUID, r *reading) *job {
	p := r.place()
	if r.bad {
		return nil
	}
	if j := c.placed(id, p); j != nil && j.isOpen() && !j.isArray() {
		return j
	}
	return nil
}

func (c *Core) replayArray(r *reading) {
	j := c.jobs[r.guid()]
	next, ended, failed := r.number(), r.number(), r.number()
	if r.bad || j == nil || !j.isArray() || !j.isOpen() {
		return
	}
	a := j.rare.array
	if next < a.first || next > a.last+1 || ended < 0 || ended > next-a.first || failed < 0 || failed > ended {
		r.bad = true
		return
	}
	a.next, a.ended, a.failed = next, ended, failed
	c.madeAll(a)
}

// replayID applies a record that has only the id of a job.
func (c *Core) replayID(kind byte, r *reading) {
	j := c.jobs[r.guid()]
	if r.bad || j == nil {
		return
	}
	switch kind {
	case recDelivered:
		if c.owed(j) {
			c.delivered(j)
			c.evict()
		}
	case recRequeue:
		if j.state == dead {
			c.requeue(j)
		}
	case recDrop:
		if j.state == dead {
			c.drop(j)
			break
		}
		if c.owed(j) {
			c.settle(j)
		}
		if !j.isOpen() {
			c.forget(j)
		}
	case recCancel:
		if j.isOpen() {
			c.cancel(j, r.text())
		}
	default:
		r.bad = true
	}
}

// Recovered ends the replay. Jobs that were running wait for their workers to come back, for Config.Recovery.
func (c *Core) Recovered(now Moment) {
	c.at(now)
	c.Counts = Counts{}
	c.shift = 0
	c.awaitWorkers()
	c.waitedAt = c.now
	if c.recovering.n > 0 {
		c.recoverUntil = c.now + c.cfg.Recovery
	}
	for _, j := range c.order.jobs {
		switch {
		case j.state == 0 || !j.isOpen():
		case j.isArray():
			c.recount(j.rare.array)
		case j.options().tie:
			c.recoverUntil = c.now + c.cfg.Recovery
		}
	}
	for _, cl := range c.clients {
		c.dropClient(cl)
	}
	if !c.cfg.NoRecords {
		c.keep(epochRecord(c.buf, c))
	}
}

// recount counts elements whose records are lost as failed, so that the array can end.
func (c *Core) recount(a *array) {
	lost := a.next - a.first - a.ended - int64(len(a.open))
	a.ended += lost
	a.failed += lost
	c.endArray(a)
}

package schedule

import (
	"encoding/json"
	"fmt"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Replay does again what a record says. All records of a journal are replayed, in order, before the first event; then comes [Core.Recovered].
// A record of a job that is not known, because another record is lost, does what is still possible.
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
		if name, n := r.name(), r.small(1<<30); !r.bad {
			cl := c.client(name)
			cl.cap, cl.known = int(n), true
		}
	case recArray:
		c.replayArray(&r)
	default:
		c.replayID(kind[0], &r)
	}
	if r.bad && err == nil {
		err = fmt.Errorf("%w: kind %d", errRecord, kind[0])
	}
	return err
}

// epochRecord tells which time the moments of the records behind it are counted from.
func epochRecord(c *Core) Record {
	return append(make(Record, 0, 16), recEpoch).number(c.cfg.Epoch.UnixNano())
}

func (c *Core) replayEpoch(r *reading) {
	c.shift = Moment(r.number() - c.cfg.Epoch.UnixNano())
}

func (c *Core) replaySubmit(r *reading) error {
	s := Submission{ID: r.guid(), Digest: uint64(r.number())}
	born, clientName := r.moment(c), r.name()
	s.Exec = r.name()
	opts := r.text()
	s.First, s.Last = r.number(), r.number()
	s.Body = r.body()
	if r.bad || c.jobs[s.ID] != nil {
		return nil
	}
	if opts != "" {
		if err := json.Unmarshal([]byte(opts), &s.Options); err != nil {
			return fmt.Errorf("%w: options of job %s: %w", errRecord, s.ID, err)
		}
	}
	if t := s.Options.NotAfter; t != nil {
		s.NotAfter = max(1, t.Sub(c.cfg.Epoch))
	}
	j, err := c.newJob(clientName, s)
	if err != nil {
		return fmt.Errorf("%w: array %s: %w", errRecord, s.ID, err)
	}
	j.born, j.since = born, born
	return nil
}

// placed returns a job, which is made if it is one of an array.
func (c *Core) placed(id wire.GUID, p place) *job {
	arrayID, index := p.array, p.index
	if j := c.jobs[id]; j != nil || index < 0 {
		return j
	}
	parent := c.jobs[arrayID]
	if parent == nil || parent.rare == nil || parent.rare.array == nil || !parent.isOpen() {
		return nil
	}
	a := parent.rare.array
	if index < a.first || index > a.last || wire.ElementID(arrayID, index) != id {
		return nil
	}
	e := c.element(a, index)
	c.madeAll(a)
	c.runs(e)
	return e
}

// madeAll takes an array out of its line when all its jobs are made.
func (c *Core) madeAll(a *array) {
	if j := a.job; a.next > a.last && j.state == queued {
		c.dequeue(j)
		c.timers.stop(&j.rare.timer)
		j.state = parent
	}
}

// runs notes that a job was running when the leader ended.
func (c *Core) runs(j *job) {
	j.state, j.since = running, c.now
	c.recovering[j.id] = j
	j.line.client.running++
}

func (c *Core) replayStart(r *reading) {
	id, attemptID, worker, host := r.guid(), r.guid(), r.guid(), r.text()
	j := c.placed(id, placeOf(r))
	if r.bad || j == nil || !j.isOpen() || j.state == parent {
		return
	}
	if j.state != running {
		c.outOfLine(j)
		c.runs(j)
	}
	m := j.more()
	m.attempt, m.avoid, m.last = attemptID, worker, host
}

func (c *Core) replayBack(r *reading) {
	id, avoid := r.guid(), r.guid()
	attempts, crashes := r.small(255), r.small(255)
	a := Attempt{Number: int(r.small(1 << 20)), At: r.moment(c), Worker: r.text(), Reason: r.text()}
	j := c.placed(id, placeOf(r))
	if r.bad || j == nil || !j.isOpen() || j.state == parent {
		return
	}
	c.outOfLine(j)
	m := j.more()
	m.avoid, m.last = avoid, a.Reason
	if a.Number > 0 {
		m.history = append(m.history, a)
	}
	j.attempts, j.crashes = uint8(attempts), uint8(crashes)
	c.enqueue(j, true)
	c.watchExpiry(j)
}

func (c *Core) replayEnd(r *reading) {
	id, outcome, born, since, digest := r.guid(), r.outcome(), r.moment(c), r.moment(c), uint64(r.number())
	clientName, execName, last := r.name(), r.name(), r.text()
	arrayID, index := r.place()
	b := r.body()
	if r.bad {
		return
	}
	j := c.placed(id, place{arrayID, index})
	switch {
	case j == nil:
		j = &job{id: id, digest: digest, line: c.line(clientName, execName, false), state: ended, outcome: outcome, born: born, since: since}
		c.setBody(j, b)
		c.add(j)
		c.owe(j)
	case !j.isOpen():
		return
	default:
		c.end(j, outcome, b)
		j.since = since
	}
	if last != "" {
		j.more().last = last
	}
}

func (c *Core) replayDead(r *reading) {
	id, since, reason := r.guid(), r.moment(c), r.text()
	j := c.placed(id, placeOf(r))
	b := r.body()
	if r.bad || j == nil || !j.isOpen() {
		return
	}
	c.deadLetter(j, reason)
	j.since = since
	c.bytes += int64(len(b.Bytes) - len(j.rare.dead.result))
	j.line.client.results += int64(len(b.Bytes) - len(j.rare.dead.result))
	j.rare.dead.result = b.Bytes
}

func (c *Core) replayArray(r *reading) {
	j := c.jobs[r.guid()]
	next, ended, failed := r.number(), r.number(), r.number()
	if r.bad || j == nil || j.rare == nil || j.rare.array == nil || j.rare.index >= 0 {
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

// replayID does what is said of a job by its id alone.
func (c *Core) replayID(kind byte, r *reading) {
	j := c.jobs[r.guid()]
	if r.bad || j == nil {
		return
	}
	switch kind {
	case recDelivered:
		if !j.isOpen() && j.list != nil && j.list != &c.acked {
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
		}
	case recCancel:
		if j.isOpen() {
			c.cancel(j, r.text())
		}
	default:
		r.bad = true
	}
}

type place struct {
	array wire.GUID
	index int64
}

func placeOf(r *reading) place {
	array, index := r.place()
	return place{array, index}
}

// Recovered ends the replay. Jobs that were running wait a while for their workers to come back.
func (c *Core) Recovered(now Moment) {
	c.at(now)
	c.Counts = Counts{}
	c.shift = 0
	if len(c.recovering) > 0 {
		c.recoverUntil = c.now + c.cfg.Recovery
	}
	for _, j := range c.jobs {
		if j.state == parent {
			c.endArray(j.rare.array)
		}
	}
	for _, cl := range c.clients {
		c.dropClient(cl)
	}
	c.write(epochRecord(c))
}

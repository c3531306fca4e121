package schedule

import (
	"slices"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Snapshot is a copy of the state, to be written as the records of a checkpoint.
type Snapshot struct {
	epoch Record
	rest  []Record // caps and pauses
	jobs  []job
}

// Snapshot copies the state, quickly: requests and results do not change, so they are not copied.
func (c *Core) Snapshot() *Snapshot {
	s := &Snapshot{epoch: epochRecord(nil, c), jobs: make([]job, 0, len(c.jobs))}
	for name, cl := range c.clients {
		if cl.known {
			s.rest = append(s.rest, capRecord(nil, name, cl.cap))
		}
	}
	for exec, at := range c.paused {
		s.rest = append(s.rest, pauseRecord(nil, exec, at))
	}
	for j := range c.order.all {
		copied := *j
		if j.rare != nil {
			copied.rare = j.rare.copied()
		}
		if !j.isOpen() && !c.owed(j) {
			copied.list = &delivered
		}
		s.jobs = append(s.jobs, copied)
	}
	return s
}

// copied copies the fields that may change.
func (r *rare) copied() *rare {
	copied := *r
	copied.history = slices.Clone(r.history)
	if r.array != nil && r.index < 0 {
		a := *r.array
		copied.array = &a
	}
	return &copied
}

// delivered is the list of a copied job whose client has the result.
var delivered list

// Each calls write with each record until that fails, and returns its error. A record is valid until write returns. Each may run concurrently with the Core.
func (s *Snapshot) Each(write func(record []byte) error) error {
	for _, r := range append([]Record{s.epoch}, s.rest...) {
		if err := write(r); err != nil {
			return err
		}
	}
	w := &stateWriter{write: write}
	for i := range s.jobs {
		if w.job(&s.jobs[i]); w.err != nil {
			return w.err
		}
	}
	return nil
}

// stateWriter writes the records from which jobs can be replayed.
type stateWriter struct {
	write func(record []byte) error
	buf   Record
	err   error
}

func (w *stateWriter) add(j *job, record func(Record, *job) Record) {
	if w.err == nil {
		w.buf = record(w.buf[:0], j)
		w.err = w.write(w.buf)
	}
}

func (w *stateWriter) job(j *job) {
	_, _, isElement := j.element()
	switch {
	case j.state == ended:
		w.add(j, endRecord)
	case !isElement: // such a job is made by its array
		w.add(j, submitRecord)
	}
	if j.isOpen() && j.isArray() {
		w.add(j, arrayRecord)
	} else if j.state != ended {
		w.attempts(j, isElement && j.state != running)
	}
	if j.state == dead {
		w.add(j, deadRecord)
	}
	if j.isOpen() && j.canceled() { // one that runs, or an array
		w.add(j, cancelRecord)
	}
	if j.list == &delivered {
		w.add(j, deliveredRecord)
	}
}

// attempts writes those that a job has had, and the one that it has. At least one record is needed to make a job of an array again.
func (w *stateWriter) attempts(j *job, needed bool) {
	if j.rare != nil && (j.attempts > 0 || len(j.rare.history) > 0 || needed) {
		for _, a := range j.rare.history {
			w.add(j, func(to Record, j *job) Record { return backRecord(to, j, a) })
		}
		if len(j.rare.history) == 0 {
			w.add(j, func(to Record, j *job) Record { return backRecord(to, j, Attempt{}) })
		}
	}
	if j.state == running {
		w.add(j, startRecord)
	}
}

// Refs calls f for each body that is stored outside the state.
func (c *Core) Refs(f func(ref wire.GUID)) {
	for _, j := range c.jobs {
		if j.rare != nil && !j.rare.ref.IsZero() {
			f(j.rare.ref)
		}
	}
}

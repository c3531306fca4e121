package schedule

import (
	"slices"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Snapshot is a copy of the state, to be written as the records of a checkpoint.
type Snapshot struct {
	epoch Record
	caps  []Record
	jobs  []job
}

// Snapshot copies the state, quickly: requests and results do not change, so they are not copied.
func (c *Core) Snapshot() *Snapshot {
	s := &Snapshot{epoch: epochRecord(c), jobs: make([]job, 0, len(c.jobs))}
	for name, cl := range c.clients {
		if cl.known {
			s.caps = append(s.caps, capRecord(name, cl.cap))
		}
	}
	for _, j := range c.order.jobs {
		if j.state == 0 {
			continue
		}
		copied := *j
		if j.rare != nil {
			copied.rare = j.rare.copied()
		}
		if j.list == &c.acked || !j.isOpen() && j.list == nil {
			copied.list = &delivered
		}
		s.jobs = append(s.jobs, copied)
	}
	return s
}

// copied is a copy of what may change.
func (r *rare) copied() *rare {
	copied := *r
	copied.history = slices.Clone(r.history)
	if r.array != nil {
		a := *r.array
		a.open = nil
		copied.array = &a
	}
	return &copied
}

// delivered stands for the lists of results that their clients have.
var delivered list

// Each calls write for each record, until one fails.
func (s *Snapshot) Each(write func(record []byte) error) error {
	records := append([]Record{s.epoch}, s.caps...)
	for i := 0; ; i++ {
		for _, r := range records {
			if err := write(r); err != nil {
				return err
			}
		}
		if i == len(s.jobs) {
			return nil
		}
		records = records[:0]
		records = append(records, stateRecords(&s.jobs[i])...)
	}
}

// stateRecords are what makes a job again as it is.
func stateRecords(j *job) (all []Record) {
	r := j.rare
	if _, _, ok := j.element(); ok && !j.isOpen() { // it has been counted by its array
		alone := *r
		alone.array, alone.index = nil, -1
		j.rare, r = &alone, &alone
	}
	switch {
	case j.state == ended:
		all = append(all, endRecord(j))
	case r == nil || r.array == nil || r.index < 0:
		all = append(all, submitRecord(j))
	}
	if r != nil && j.state != ended {
		if r.array != nil && r.index < 0 {
			all = append(all, arrayRecord(r.array))
		}
		if j.attempts > 0 || r.array != nil && r.index >= 0 && j.state != running {
			for _, a := range r.history {
				all = append(all, backRecord(j, a))
			}
			if len(r.history) == 0 {
				all = append(all, backRecord(j, Attempt{}))
			}
		}
	}
	switch {
	case j.state == running && j.run != nil:
		all = append(all, startRecord(j, j.run, j.run.worker))
	case j.state == running && r != nil:
		all = append(all, start(j, r.attempt, r.avoid, r.last))
	case j.state == dead:
		all = append(all, deadRecord(j))
	}
	if r != nil && r.cancel && j.isOpen() { // one that runs, or an array
		all = append(all, cancelRecord(j))
	}
	if j.list == &delivered {
		all = append(all, deliveredRecord(j))
	}
	return all
}

// Refs calls f for each body that is stored elsewhere.
func (c *Core) Refs(f func(ref wire.GUID)) {
	for _, j := range c.jobs {
		if j.rare != nil && !j.rare.ref.IsZero() {
			f(j.rare.ref)
		}
	}
}

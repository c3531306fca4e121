package schedule

import (
	"bytes"
	"sort"
)

// order has all jobs by age, so that pages of them can be shown. Each has a position, by which the next page finds where it begins.
type order struct {
	jobs    []*job
	last    uint64 // seq of the newest job that there was
	missing int    // of jobs that are no longer known
	ms      int64  // the millisecond of the newest job
	from    int    // where the jobs of that millisecond begin
}

// maxSame is how many jobs of one millisecond are in the order of their ids. More of them come after a leap of the clock, in the order of their submission.
const maxSame = 2000

// add puts a job that was submitted in a millisecond behind those that are older. Among those of the same millisecond the ids decide, as they do where jobs
// are shown.
func (o *order) add(j *job, ms int64) {
	o.last++
	j.seq, j.position = o.last, o.last
	o.jobs = append(o.jobs, j)
	if ms != o.ms || len(o.jobs)-o.from > maxSame {
		o.ms, o.from = ms, len(o.jobs)-1
		return
	}
	same := o.jobs[o.from : len(o.jobs)-1]
	at := o.from + sort.Search(len(same), func(i int) bool { return bytes.Compare(same[i].id[:], j.id[:]) > 0 })
	copy(o.jobs[at+1:], o.jobs[at:])
	o.jobs[at] = j
	for i := at; i < len(o.jobs)-1; i++ { // a position belongs to a place
		o.jobs[i].position, o.jobs[i+1].position = o.jobs[i+1].position, o.jobs[i].position
	}
}

// gone notes that a job is no longer known. It leaves once most of those that are here are not.
func (o *order) gone(j *job) {
	j.state = 0
	if o.missing++; o.missing <= 1024 || o.missing <= len(o.jobs)/2 {
		return
	}
	kept := make([]*job, 0, len(o.jobs)-o.missing)
	for j := range o.all {
		kept = append(kept, j)
	}
	o.jobs, o.missing, o.from = kept, 0, len(kept)
}

// all calls yield for each job, the oldest first.
func (o *order) all(yield func(*job) bool) {
	for _, j := range o.jobs {
		if j.state != 0 && !yield(j) {
			return
		}
	}
}

// before returns how many of the jobs here come before a position.
func (o *order) before(position uint64) int {
	return sort.Search(len(o.jobs), func(i int) bool { return o.jobs[i].position >= position })
}

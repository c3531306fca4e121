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
}

// maxSame is behind how many jobs of one millisecond a job is looked for its place.
const maxSame = 10_000

// add puts a job behind those that are older. Among those of the same millisecond the ids decide, as they do where jobs are shown.
func (o *order) add(j *job, ms func(*job) int64) {
	o.last++
	j.seq, j.position = o.last, o.last
	o.jobs = append(o.jobs, j)
	at := ms(j)
	for i := len(o.jobs) - 1; i > max(0, len(o.jobs)-maxSame); i-- {
		before := o.jobs[i-1]
		if ms(before) != at || bytes.Compare(before.id[:], j.id[:]) <= 0 {
			break
		}
		o.jobs[i], o.jobs[i-1] = before, j
		before.position, j.position = j.position, before.position
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
	o.jobs, o.missing = kept, 0
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

package schedule

import (
	"bytes"
	"slices"
	"sort"
)

// order has all jobs as they have come, so that pages of them can be shown. Among those of the same millisecond the ids decide: they are sorted when
// they are shown.
type order struct {
	jobs    []*job
	last    uint64 // seq of the newest job that there was
	missing int    // of jobs that are no longer known
}

func (o *order) add(j *job) {
	o.last++
	j.seq = o.last
	o.jobs = append(o.jobs, j)
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

// find returns how many of the jobs here have come before one with a seq.
func (o *order) find(seq uint64) int {
	return sort.Search(len(o.jobs), func(i int) bool { return o.jobs[i].seq >= seq })
}

// maxRun is how many jobs of one millisecond are sorted at a time.
const maxRun = 1 << 14

// run returns the limits of the jobs around one that are sorted together.
func (o *order) run(i int, ms func(*job) int64) (from, to int) {
	same := func(k int) bool {
		return o.jobs[k].seq/maxRun == o.jobs[i].seq/maxRun && ms(o.jobs[k]) == ms(o.jobs[i])
	}
	for from = i; from > 0 && same(from-1); from-- {
	}
	for to = i + 1; to < len(o.jobs) && same(to); to++ {
	}
	return from, to
}

// sorted returns some jobs, the one with the highest id first.
func (o *order) sorted(from, to int) []*job {
	run := slices.Clone(o.jobs[from:to])
	slices.SortFunc(run, func(a, b *job) int { return bytes.Compare(b.id[:], a.id[:]) })
	return run
}

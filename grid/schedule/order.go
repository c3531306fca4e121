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
	oldest  []int64 // when the oldest job of each chunk was submitted, in Unix milliseconds
	last    uint64  // seq of the newest job that there was
	missing int     // of jobs that are no longer known
}

// chunk is how many jobs have one place in order.oldest.
const chunk = 1024

func (o *order) add(j *job, ms int64) {
	o.last++
	j.seq = o.last
	o.append(j, ms)
}

func (o *order) append(j *job, ms int64) {
	if len(o.jobs)%chunk == 0 {
		o.oldest = append(o.oldest, ms)
	}
	o.jobs = append(o.jobs, j)
	last := &o.oldest[len(o.oldest)-1]
	*last = min(*last, ms)
}

// before returns a number of jobs that is at most to: those behind it up to to were all submitted at a time or later. Jobs of an array are as old as
// the array, and made later.
func (o *order) before(to int, untilMs int64) int {
	for to > 0 && o.oldest[(to-1)/chunk] >= untilMs {
		to = (to - 1) / chunk * chunk
	}
	return to
}

// gone notes that a job is no longer known. It leaves once most of those that are here are not. ms is as for add.
func (o *order) gone(j *job, ms func(*job) int64) {
	j.state = 0
	if o.missing++; o.missing <= 1024 || o.missing <= len(o.jobs)/2 {
		return
	}
	before := o.jobs
	o.jobs, o.oldest, o.missing = make([]*job, 0, len(before)-o.missing), nil, 0
	for _, j := range before {
		if j.state != 0 {
			o.append(j, ms(j))
		}
	}
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

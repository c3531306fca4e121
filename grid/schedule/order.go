package schedule

import "slices"

// order has all jobs by age, so that pages of them can be shown.
type order struct {
	jobs    []*job
	missing int // that are no longer known
}

func (o *order) add(j *job) { o.jobs = append(o.jobs, j) }

func (o *order) gone(j *job) {
	j.state = 0
	if o.missing++; o.missing > 1024 && o.missing > len(o.jobs)/2 {
		o.jobs = slices.DeleteFunc(o.jobs, func(j *job) bool { return j.state == 0 })
		o.missing = 0
	}
}

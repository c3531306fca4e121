package schedule

import "bytes"

// order has all jobs by age, so that pages of them can be shown. Positions count from the first job that there was, so they stay valid
// when jobs are forgotten.
type order struct {
	jobs    []*job
	first   uint64 // the position of jobs[0]
	missing int    // that are no longer known
}

// add puts a job behind those that are older. Among those of the same millisecond the ids decide, as they do where jobs are shown.
func (o *order) add(j *job, ms func(*job) int64) {
	if o.first == 0 {
		o.first = 1 // 0 means the newest
	}
	o.jobs = append(o.jobs, j)
	at := ms(j)
	for i := len(o.jobs) - 1; i > 0; i-- {
		before := o.jobs[i-1]
		if ms(before) != at || bytes.Compare(before.id[:], j.id[:]) <= 0 {
			break
		}
		o.jobs[i], o.jobs[i-1] = before, j
	}
}

// gone notes that a job is no longer known. Once most are, those that are left move to the end of the positions.
func (o *order) gone(j *job) {
	j.state = 0
	if o.missing++; o.missing <= 1024 || o.missing <= len(o.jobs)/2 {
		return
	}
	last := len(o.jobs)
	kept := o.jobs[:0:0]
	for _, j := range o.jobs {
		if j.state != 0 {
			kept = append(kept, j)
		}
	}
	o.first += uint64(last - len(kept))
	o.jobs, o.missing = kept, 0
}

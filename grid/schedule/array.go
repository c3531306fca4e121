package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// array is a job that stands for many, its elements: one for each index. They are made in the order of their indexes, when it is their turn.
type array struct {
	job    *job
	submit wire.Submit
	first  int64
	last   int64
	next   int64 // first index whose job is not made yet
	ended  int64
	failed int64
	open   map[*job]bool // elements that were made and have not ended
}

// newArray makes the array of a job. The error is from [wire.ReadSubmit].
func newArray(j *job, s Submission) (*array, error) {
	submit, err := wire.ReadSubmit(s.Body.Bytes)
	if err != nil {
		return nil, err
	}
	return &array{job: j, submit: submit, first: s.First, last: s.Last, next: s.First, open: map[*job]bool{}}, nil
}

func (a *array) size() int64 { return a.last - a.first + 1 }

// nextOf makes the next element of an array, which is at the head of its line. It returns nil if all further elements have ended already.
func (c *Core) nextOf(j *job) (e *job) {
	a := j.rare.array
	c.skipKnown(a)
	if a.next <= a.last {
		e = c.element(a, a.next)
	}
	c.madeAll(a)
	if e == nil {
		c.endArray(a)
	}
	return e
}

// skipKnown counts the next elements whose results have come already: an earlier leader has made them, and ended before it wrote that down.
func (c *Core) skipKnown(a *array) {
	for ; a.next <= a.last; a.next++ {
		j := c.jobs[wire.ElementID(a.job.id, a.next)]
		if j == nil {
			return
		}
		a.ended++
		if j.outcome != jobs.Succeeded {
			a.failed++
		}
	}
}

// madeAll takes an array out of its line when all elements are made.
func (c *Core) madeAll(a *array) {
	if j := a.job; a.next > a.last && j.state == queued {
		c.dequeue(j)
		c.set(j, parent)
	}
}

// element makes the element of an index. It is in no line.
func (c *Core) element(a *array, index int64) *job {
	a.next = max(a.next, index+1)
	e := &job{id: wire.ElementID(a.job.id, index), line: a.job.line, state: running, born: a.job.born, since: c.now, owner: a.job.owner}
	r := e.more()
	r.array, r.arrayID, r.index = a, a.job.id, index
	r.opts, r.notAfter = a.job.rare.opts, a.job.rare.notAfter
	r.opts.tie = false // it ends with its array
	a.open[e] = true
	c.add(e)
	return e
}

// elementEnded counts an element that has ended, and ends the array with the last one.
func (c *Core) elementEnded(a *array, e *job) {
	delete(a.open, e)
	a.ended++
	if e.outcome != jobs.Succeeded {
		a.failed++
	}
	c.endArray(a)
}

// endArray ends an array if no more elements are made, and all have ended.
func (c *Core) endArray(a *array) {
	j := a.job
	if j.state != parent || a.ended < a.next-a.first {
		return
	}
	message := fmt.Sprintf("%d of %d have succeeded", a.ended-a.failed, a.size())
	switch {
	case j.rare.last == wire.ReasonExpired:
		c.endWith(j, jobs.Failed, wire.ReasonExpired, fmt.Sprintf("%d were not started before NotAfter; ", a.last+1-a.next)+message)
	case j.canceled():
		c.endWith(j, jobs.Canceled, wire.ReasonCanceled, message)
	case a.failed > 0:
		c.endWith(j, jobs.Failed, wire.ReasonExit, message)
	default:
		c.endWith(j, jobs.Succeeded, "", message)
	}
}

// cancelArray cancels the elements of an array, and makes no more.
func (c *Core) cancelArray(a *array) {
	if a.job.state == queued {
		c.dequeue(a.job)
	}
	c.set(a.job, parent)
	for _, e := range slices.SortedFunc(maps.Keys(a.open), func(a, b *job) int { return cmp.Compare(a.rare.index, b.rare.index) }) {
		c.cancel(e, "its array was asked to stop")
	}
	c.endArray(a)
}

// elementBody returns the request of an element.
func elementBody(a *array, id wire.GUID, index int64) Body {
	b := a.submit.ElementPayload(a.job.body, id, index)
	return Body{Bytes: b, Size: len(b), Blobs: a.job.rare.blobs}
}

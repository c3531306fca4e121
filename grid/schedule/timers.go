package schedule

import "container/heap"

// timer is a timer of a job or of its attempt.
type timer struct {
	at    Moment
	job   *job
	index int // in the heap, from 1; 0 when it is not set
}

// timers is a heap; the next timer to fire is first.
type timers []*timer

func (t timers) Len() int           { return len(t) }
func (t timers) Less(a, b int) bool { return t[a].at < t[b].at }
func (t timers) Swap(a, b int) {
	t[a], t[b] = t[b], t[a]
	t[a].index, t[b].index = a+1, b+1
}

// Push implements heap.Interface.
func (t *timers) Push(v any) {
	e := v.(*timer)
	*t = append(*t, e)
	e.index = len(*t)
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	old := *t
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	e.index = 0
	return e
}

// set sets or resets a timer.
func (t *timers) set(e *timer, at Moment) {
	e.at = at
	if e.index > 0 {
		heap.Fix(t, e.index-1)
		return
	}
	heap.Push(t, e)
}

func (t *timers) stop(e *timer) {
	if e.index > 0 {
		heap.Remove(t, e.index-1)
	}
}

// due takes out and returns the next timer that is due, or nil.
func (t *timers) due(now Moment) *timer {
	if len(*t) == 0 || (*t)[0].at > now {
		return nil
	}
	return heap.Pop(t).(*timer)
}

package client

import "container/heap"

// pending is a heap of jobs that no leader has, by the order of their submission.
type pending []*Job

func (p *pending) add(j *Job) {
	j.waits = p
	heap.Push(p, j)
}

// stopWaiting takes a job out of its queue, if it is in one. m.mu is held.
func (j *Job) stopWaiting() {
	if j.waits != nil {
		heap.Remove(j.waits, j.place)
		j.waits = nil
	}
}

// Len implements [heap.Interface], like the methods below.
func (p pending) Len() int { return len(p) }

func (p pending) Less(a, b int) bool { return p[a].order < p[b].order }

func (p pending) Swap(a, b int) {
	p[a], p[b] = p[b], p[a]
	p[a].place, p[b].place = a, b
}

func (p *pending) Push(j any) {
	j.(*Job).place = len(*p)
	*p = append(*p, j.(*Job))
}

func (p *pending) Pop() any {
	last := len(*p) - 1
	j := (*p)[last]
	(*p)[last] = nil
	*p = (*p)[:last]
	return j
}

package client

import "container/heap"

// pending has jobs that are with no leader. The first one is that which was submitted first.
type pending []*Job

func (p *pending) add(j *Job) {
	j.waits = p
	heap.Push(p, j)
}

// stopWaiting takes a job out of the pending ones.
func (j *Job) stopWaiting() {
	if j.waits != nil {
		heap.Remove(j.waits, j.place)
		j.waits = nil
	}
}

// Len implements [heap.Interface], as the others do that follow.
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

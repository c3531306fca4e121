package client

import "container/heap"

// pending has the jobs that are with no leader. The first one is that which was submitted first.
type pending []*Job

func (p *pending) add(j *Job) { heap.Push(p, j) }

func (p *pending) remove(j *Job) {
	if j.place > 0 {
		heap.Remove(p, j.place-1)
	}
}

// Len implements [heap.Interface], as the others do that follow.
func (p pending) Len() int { return len(p) }

func (p pending) Less(a, b int) bool { return p[a].order < p[b].order }

func (p pending) Swap(a, b int) {
	p[a], p[b] = p[b], p[a]
	p[a].place, p[b].place = a+1, b+1
}

func (p *pending) Push(j any) {
	*p = append(*p, j.(*Job))
	j.(*Job).place = len(*p)
}

func (p *pending) Pop() any {
	last := len(*p) - 1
	j := (*p)[last]
	(*p)[last] = nil
	*p = (*p)[:last]
	j.place = 0
	return j
}

package schedule

// list is a chain of jobs. A job is in one list at most.
type list struct {
	first, last *job
	n           int
}

func (l *list) pushBack(j *job) {
	j.list, j.prev, j.next = l, l.last, nil
	if l.last == nil {
		l.first = j
	} else {
		l.last.next = j
	}
	l.last = j
	l.n++
}

func (l *list) pushFront(j *job) {
	j.list, j.prev, j.next = l, nil, l.first
	if l.first == nil {
		l.last = j
	} else {
		l.first.prev = j
	}
	l.first = j
	l.n++
}

// leave takes a job out of its list, if it is in one.
func (j *job) leave() {
	l := j.list
	if l == nil {
		return
	}
	if j.prev == nil {
		l.first = j.next
	} else {
		j.prev.next = j.next
	}
	if j.next == nil {
		l.last = j.prev
	} else {
		j.next.prev = j.prev
	}
	l.n--
	j.list, j.prev, j.next = nil, nil, nil
}

// ring is a queue of things that are served in turn.
type ring[T any] struct {
	items []T
	head  int
}

func (r *ring[T]) len() int { return len(r.items) - r.head }

func (r *ring[T]) push(v T) { r.items = append(r.items, v) }

// first returns the next one. The ring must not be empty.
func (r *ring[T]) first() T { return r.items[r.head] }

func (r *ring[T]) pop() T {
	var none T
	v := r.items[r.head]
	r.items[r.head] = none
	r.head++
	switch {
	case r.head == len(r.items):
		r.items, r.head = r.items[:0], 0
	case r.head >= 64 && 2*r.head >= len(r.items):
		n := copy(r.items, r.items[r.head:])
		clear(r.items[n:])
		r.items, r.head = r.items[:n], 0
	}
	return v
}

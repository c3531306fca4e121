package schedule

// list is a linked list of jobs. A job is in at most one list.
type list struct {
	first, last *job
	n           int
	bytes       int64 // of their results or requests
}

func (l *list) pushBack(j *job) { l.insert(j, l.last, nil) }

func (l *list) pushFront(j *job) { l.insert(j, nil, l.first) }

func (l *list) insert(j, prev, next *job) {
	j.list, j.prev, j.next = l, prev, next
	if prev == nil {
		l.first = j
	} else {
		prev.next = j
	}
	if next == nil {
		l.last = j
	} else {
		next.prev = j
	}
	l.n++
	l.bytes += int64(j.result().Size)
}

// leave takes a job out of its list, if it is in one. Its body must be the same as when it was put there.
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
	l.bytes -= int64(j.result().Size)
	j.list, j.prev, j.next = nil, nil, nil
}

// chain is a queue of things that may also leave it from the middle. A thing has a link for each chain that it can be in.
type chain[T any] struct {
	first, last *link[T]
	n           int
}

// link is the place of a thing in a chain.
type link[T any] struct {
	of         T
	in         *chain[T]
	prev, next *link[T]
}

// pushBack puts a thing at the end, wherever it was before.
func (c *chain[T]) pushBack(l *link[T]) {
	l.leave()
	l.in, l.prev = c, c.last
	if c.last == nil {
		c.first = l
	} else {
		c.last.next = l
	}
	c.last = l
	c.n++
}

// pushFront puts a thing first, wherever it was before.
func (c *chain[T]) pushFront(l *link[T]) {
	l.leave()
	l.in, l.next = c, c.first
	if c.first == nil {
		c.last = l
	} else {
		c.first.prev = l
	}
	c.first = l
	c.n++
}

// pop takes the first thing out. The chain must not be empty.
func (c *chain[T]) pop() T {
	l := c.first
	l.leave()
	return l.of
}

// leave takes a thing out of its chain, if it is in one.
func (l *link[T]) leave() {
	c := l.in
	if c == nil {
		return
	}
	if l.prev == nil {
		c.first = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		c.last = l.prev
	} else {
		l.next.prev = l.prev
	}
	c.n--
	l.in, l.prev, l.next = nil, nil, nil
}

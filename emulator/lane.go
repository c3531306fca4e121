package emulator

import "time"

// A lane holds the messages of one ordering key in one queue, in the order
// published. Its first part is out: handed to one puller, which gets those that
// follow too, while others get none of the key. A message that comes back takes
// all that are out behind it back with it, acknowledged or not, so that each
// puller sees the key in order from wherever it begins again.
type lane struct {
	key   string
	items itemList
	// next is the first that is not out, or nil. All before it are leased or
	// ackedEarly; none behind it is, and none behind it is available.
	next  *item
	owner *waiter // who has those that are out; nil when none is
}

// line puts a new item at the end of its lane, if it has one, and makes it
// available if its turn has come.
func (q *queue) line(it *item) {
	q.enterLane(it)
	if l := it.lane; l != nil && l.next == nil {
		l.next = it
	}
	q.makeAvailable(it, &q.fresh)
}

// enterLane puts an item at the end of its lane, if it has one.
func (q *queue) enterLane(it *item) {
	key := it.msg.pb.GetOrderingKey()
	if !q.ordered || key == "" {
		return
	}
	l := q.lanes[key]
	if l == nil {
		l = &lane{key: key, items: itemList{which: inLane}}
		q.lanes[key] = l
	}
	it.lane = l
	l.items.pushBack(it)
}

// leaveLane takes an item that is done out of its lane; the next one follows.
func (q *queue) leaveLane(it *item) {
	l := it.lane
	if l == nil {
		return
	}
	it.lane = nil
	if l.next == it {
		l.next = it.place[inLane].next
	}
	l.items.remove(it)
	if l.items.front == nil {
		delete(q.lanes, l.key)
		return
	}
	// It is as old as what came back, so it takes its turn among them.
	q.offer(l, &q.returned)
}

// offer makes the next message of a lane available: to the puller that has
// those before it, or else to all, in the given list.
func (q *queue) offer(l *lane, to *itemList) {
	if l.next == l.items.front {
		l.owner = nil
	}
	it := l.next
	if it == nil {
		return
	}
	if l.owner != nil {
		to = &l.owner.own
	}
	switch {
	case it.state == behind:
		it.state = available
	case it.state == available && l.owner == nil && it.ready != &q.fresh && it.ready != &q.returned:
		it.ready.remove(it) // its puller has none of the key left
	default: // it waits, or is where it belongs
		return
	}
	it.ready = to
	to.pushBack(it)
	if w := l.owner; w != nil && w.in == q.waiters {
		w.stopWaiting()
		w.wait(q.favored)
	}
}

// handedOut moves the turn behind an item that w has been handed.
func (q *queue) handedOut(it *item, w *waiter) {
	if l := it.lane; l != nil {
		l.owner, l.next = w, it.place[inLane].next
		q.offer(l, nil)
	}
}

// recall takes what is out behind it back, because it comes back itself: their
// leases end. Those whose own lease was over by the given time have expired and
// count as deliveries; the others do not. It becomes the next of its lane, and is
// yet to be offered.
func (q *queue) recall(it *item, at time.Duration) {
	l := it.lane
	if l == nil {
		return
	}
	last := l.items.back
	if next := l.next; next != nil {
		last = next.place[inLane].prev
		if next.state == available {
			next.ready.remove(next)
			next.ready, next.state = nil, behind
		}
	}
	for last != it {
		before := last.place[inLane].prev
		if last.state == leased && last.due <= at {
			q.count.Expired++
			q.release(last, last.due)
		} else {
			q.undo(last)
			last.again = true
		}
		last = before
	}
	l.next = it
}

// undo ends a delivery as if there had been none and leaves the item behind.
func (q *queue) undo(it *item) {
	q.log.undone(it.ack)
	if it.state == leased {
		q.unlease(it)
	} else {
		delete(q.held, it.ack)
	}
	it.deliveries--
	it.state = behind
}

// finish ends the matter of those at the front of a lane that were acknowledged
// before their turn, now that it has come.
func (q *queue) finish(now time.Duration, l *lane) {
	for l != nil && l.items.front != nil && l.items.front.state == ackedEarly {
		it := l.items.front
		q.log.acked(it.ack)
		q.done(now, it)
	}
}

package emulator

import "time"

// A lane holds the messages of one ordering key in one queue, in the order
// published. Its first part is outstanding: delivered to one puller, which also
// gets those that follow, while others get none of the key. When a message is
// returned, all outstanding ones after it are returned too, acknowledged or not,
// so that the puller which continues sees the key in order.
type lane struct {
	key   string
	items itemList
	// next is the first that is not outstanding, or nil. All before it are leased
	// or ackedEarly; none after it is, and none after it is available.
	next  *item
	owner *waiter // the puller of the outstanding ones; nil when there are none
}

// enqueue puts a new item at the end of its lane, if it has one, and makes it
// available unless an earlier one blocks it.
func (q *queue) enqueue(it *item) {
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

// leaveLane takes an item out of its lane, and makes the next one available.
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
	// It is as old as returned messages, so it is delivered among them.
	q.offer(l, &q.returned)
}

// offer makes the next message of a lane available: to the puller of those before
// it, if they are outstanding, or else to all, in the given list.
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
	case it.state == blocked:
		it.state = available
	case it.state == available && l.owner == nil && it.ready != &q.fresh && it.ready != &q.returned:
		it.ready.remove(it) // its puller has no other message of the key
	default: // it waits, or is in the right list already
		return
	}
	it.ready = to
	to.pushBack(it)
	if w := l.owner; w != nil && w.in == q.waiters {
		w.stopWaiting()
		w.wait(q.favored)
	}
}

// advanceLane offers the message after one that was delivered to w.
func (q *queue) advanceLane(it *item, w *waiter) {
	if l := it.lane; l != nil {
		l.owner, l.next = w, it.place[inLane].next
		q.offer(l, nil)
	}
}

// returnFollowing returns the outstanding messages of the same ordering key after
// it, because it is returned itself: their leases end. Those whose own lease has
// ended by the given time have expired and count as deliveries; the others do not.
// It becomes the next of its lane, and the caller offers it.
func (q *queue) returnFollowing(it *item, at time.Duration) {
	l := it.lane
	if l == nil {
		return
	}
	last := l.items.back
	if next := l.next; next != nil {
		last = next.place[inLane].prev
		if next.state == available {
			next.ready.remove(next)
			next.ready, next.state = nil, blocked
		}
	}
	for last != it {
		before := last.place[inLane].prev
		if last.state == leased && last.due <= at {
			q.count.Expired++
			q.endLease(last, last.due)
		} else {
			q.undoDelivery(last)
			last.redelivered = true
		}
		last = before
	}
	l.next = it
}

// undoDelivery ends a delivery, which then does not count, and blocks the item.
func (q *queue) undoDelivery(it *item) {
	q.record(recUndone, it.ack)
	if it.state == leased {
		q.removeLease(it)
	} else {
		delete(q.outstanding, it.ack)
	}
	it.deliveries--
	it.state = blocked
}

// finishEarlyAcks removes the messages at the front of a lane that were
// acknowledged before their turn, which has come now.
func (q *queue) finishEarlyAcks(now time.Duration, l *lane) {
	for l != nil && l.items.front != nil && l.items.front.state == ackedEarly {
		it := l.items.front
		q.record(recAcked, it.ack)
		q.finishAck(now, it)
	}
}

package emulator

// A lane holds the messages of one ordering key in one queue, in the order
// published. Only the first of them is ever available or leased: the next
// follows when it is acknowledged, so a message that comes back comes back
// before its successors have been seen.
type lane struct {
	key   string
	items itemList
}

// line puts a new item at the end of its lane, if it has one, and makes it
// available unless others of its key come first.
func (q *queue) line(it *item) {
	key := it.msg.pb.GetOrderingKey()
	if !q.ordered || key == "" {
		q.makeAvailable(it, &q.fresh)
		return
	}
	l := q.lanes[key]
	if l == nil {
		l = &lane{key: key, items: itemList{which: inLane}}
		q.lanes[key] = l
	}
	it.lane = l
	l.items.pushBack(it)
	if l.items.front == it {
		q.makeAvailable(it, &q.fresh)
	} else {
		it.state = behind
	}
}

// leaveLane takes an item that is done out of its lane; the next one follows.
func (q *queue) leaveLane(it *item) {
	l := it.lane
	if l == nil {
		return
	}
	it.lane = nil
	first := l.items.front == it
	l.items.remove(it)
	switch next := l.items.front; {
	case next == nil:
		delete(q.lanes, l.key)
	case first && next.state == behind: // after a restart it may be leased already
		// It is as old as what came back, so it takes its turn among them.
		q.makeAvailable(next, &q.returned)
	}
}

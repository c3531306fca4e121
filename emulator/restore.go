package emulator

import (
	"container/heap"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// restore returns a broker in the state of the image, which goes on writing
// down what happens. The image is not used any more.
func (img *image) restore(to recorder, log *slog.Logger) *broker {
	b := newBroker()
	b.log = to
	if img.begun {
		b.epoch = img.epoch
	}
	b.lastID.Store(max(b.lastID.Load(), img.lastID))
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, t := range img.topics {
		restored := newTopic(t.pb, b.epoch)
		restored.log = t.log
		b.topics[name] = restored
		restored.dropOld()
	}
	for name, s := range img.subs {
		b.subs[name] = img.restoreSubscription(b, s)
	}
	for name, snap := range img.snaps {
		restored := &snapshot{pb: snap.pb, topic: b.topics[snap.pb.GetTopic()], msgs: snap.msgs}
		if t := restored.topic; t != nil {
			t.snapshots = append(t.snapshots, restored)
		}
		b.snapshots[name] = restored
		b.watchExpiry(restored)
	}
	if img.begun {
		log.Info("state restored", "topics", len(b.topics), "subscriptions", len(b.subs), "snapshots", len(b.snapshots), "messages", img.count())
	}
	return b
}

// restoreSchemas gives the broker the schemas of the image. One that cannot be
// used any more is left out, with a line in the log.
func (b *broker) restoreSchemas(img *image, log *slog.Logger) {
	for name, revisions := range img.schemas {
		if err := b.schemas.restore(revisions); err != nil {
			log.Warn("schema is lost", "schema", name, "err", err)
		}
	}
	b.schemas.changed = b.log.schema
}

// count returns how many messages are not acknowledged.
func (img *image) count() int {
	n := 0
	for _, s := range img.subs {
		for _, it := range s.items {
			if it.state != acked {
				n++
			}
		}
	}
	return n
}

func (img *image) restoreSubscription(b *broker, s *subImage) *subscription {
	showPull(s.pb) // older journals do not
	sub := &subscription{pb: s.pb, queue: b.newQueue(s.settings, s.pb.GetName())}
	q := sub.queue
	q.instance, q.log.instance = s.instance, s.instance
	q.since, q.lastDelivery = s.since, s.last
	q.active = time.Since(b.epoch)
	q.restore(slices.SortedFunc(maps.Values(s.items), func(a, b *item) int { return compareID(a.msg, b.msg.id) }))
	if s.pb.GetDetached() {
		q.close(errSubscriptionDetached)
	} else if t := b.topics[s.pb.GetTopic()]; t != nil {
		sub.topic = t
		t.attach(q, func() {}) // that is on record already
	}
	b.watchIdle(sub)
	return sub
}

// restore fills an empty queue with items in the order published. Leases and
// delays that are over end as if on time; none lasts for longer than it may,
// though the machine's clock has gone back.
func (q *queue) restore(items []*item) {
	v := q.enter()
	defer v.leave()
	for _, it := range items {
		switch {
		case it.state == acked:
			q.kept.pushBack(it)
		case q.ends(it) <= v.now: // the end of a retention leaves no record
			it.state = gone
			q.count.Dropped++
		default:
			q.readmit(v.now, it)
		}
	}
	before := &waiter{own: itemList{which: inReady}} // those of an earlier life
	for _, l := range q.lanes {
		q.resume(v.now, l, before)
	}
	for _, it := range items {
		if l := it.lane; l != nil && l.next == it {
			q.offer(l, &q.fresh)
		} else if l == nil && it.state == behind {
			q.makeAvailable(it, &q.fresh)
		}
	}
}

// readmit puts an item back where it was, but leaves it behind where it is
// available.
func (q *queue) readmit(now time.Duration, it *item) {
	q.order.pushBack(it)
	q.load.add(it.msg)
	q.enterLane(it)
	switch it.state {
	case available, behind:
		it.state = behind
	case leased:
		it.due = min(it.due, now+maxAckDeadline)
		q.held[it.ack] = it
		heap.Push(&q.timed, it)
		if it.due <= now {
			q.count.Expired++
			q.release(it, it.due)
		}
	case ackedEarly:
		q.held[it.ack] = it
		if it.lane == nil { // only a damaged journal says so
			q.done(now, it)
		}
	case delayed:
		it.due = min(it.due, now+maxBackoff)
		heap.Push(&q.timed, it)
	default:
		it.state = dying
		q.spent = append(q.spent, it)
	}
}

// resume finds out what of a lane is out, and to its owner. What is out behind
// a message that is not was taken back when that one's lease ended.
func (q *queue) resume(now time.Duration, l *lane, owner *waiter) {
	l.owner = owner
	for it := range l.items.all {
		switch out := it.state == leased || it.state == ackedEarly; {
		case l.next == nil && !out:
			l.next = it
		case l.next != nil && out:
			q.undo(it)
		}
	}
	q.finish(now, l)
}

// halt stops the queue's timer for good.
func (q *queue) halt() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.closed = errStopped
	}
	if q.timer != nil {
		q.timer.Stop()
	}
}

func (t *topic) halt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopPruning()
}

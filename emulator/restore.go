package emulator

import (
	"container/heap"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// restore returns a broker in the state of the image, which records its changes
// in to. The image is not used any more.
func (img *image) restore(to *stableLog, log *slog.Logger) *broker {
	b := newBroker()
	b.log = to
	if !img.epoch.IsZero() {
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
	if !img.epoch.IsZero() {
		log.Info("state restored", "topics", len(b.topics), "subscriptions", len(b.subs), "snapshots", len(b.snapshots), "messages", img.count())
	}
	return b
}

// restoreSchemas adds the schemas of the image to the broker. One that does not
// compile is left out, with a line in the log.
func (b *broker) restoreSchemas(img *image, log *slog.Logger) {
	for name, revisions := range img.schemas {
		if err := b.schemas.restore(revisions); err != nil {
			log.Warn("cannot restore schema", "schema", name, "err", err)
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
	setEmptyPushConfig(s.pb) // older journals do not
	sub := &subscription{pb: s.pb, queue: b.newQueue(s.settings, s.pb.GetName())}
	q := sub.queue
	q.instance, q.lastSeek, q.lastDelivery = s.instance, s.lastSeek, s.last
	q.lastActive = time.Since(b.epoch)
	q.restore(slices.SortedFunc(maps.Values(s.items), func(a, b *item) int { return compareID(a.msg, b.msg.id) }))
	if s.pb.GetDetached() {
		q.close(errDetached(s.pb.GetName()))
	} else if t := b.topics[s.pb.GetTopic()]; t != nil {
		sub.topic = t
		t.attach(q, func() {}) // that is on record already
	}
	b.watchIdle(sub)
	return sub
}

// restore fills an empty queue with items in the order published. Leases and
// delays that have ended meanwhile end as if on time; none lasts longer than its
// limit, even if the machine's clock was set back.
func (q *queue) restore(items []*item) {
	v := q.lock()
	defer v.unlock()
	for _, it := range items {
		switch {
		case it.state == acked:
			q.ackedItems.pushBack(it)
		case q.retentionEnd(it) <= v.now: // the end of a retention leaves no record
			it.state = removed
			q.count.Dropped++
		default:
			q.restoreItem(v.now, it)
		}
	}
	before := &waiter{own: itemList{which: inReady}} // the pullers before the restart
	for _, l := range q.lanes {
		q.restoreLane(v.now, l, before)
	}
	for _, it := range items {
		if l := it.lane; l != nil && l.next == it {
			q.offer(l, &q.fresh)
		} else if l == nil && it.state == blocked {
			q.makeAvailable(it, &q.fresh)
		}
	}
}

// restoreItem restores an item in its state, but an available one as blocked:
// restore makes it available.
func (q *queue) restoreItem(now time.Duration, it *item) {
	q.order.pushBack(it)
	q.load.add(it.msg)
	q.enterLane(it)
	switch it.state {
	case available, blocked:
		it.state = blocked
	case leased:
		it.due = min(it.due, now+maxAckDeadline)
		q.outstanding[it.ack] = it
		heap.Push(&q.timed, it)
		if it.due <= now {
			q.count.Expired++
			q.endLease(it, it.due)
		}
	case ackedEarly:
		q.outstanding[it.ack] = it
		if it.lane == nil { // only in a damaged journal
			q.finishAck(now, it)
		}
	case delayed:
		it.due = min(it.due, now+maxBackoff)
		heap.Push(&q.timed, it)
	default:
		it.state = deadLettering
		q.exhausted = append(q.exhausted, it)
	}
}

// restoreLane finds the outstanding messages of a lane and makes owner their
// puller. One that follows a message which is not outstanding was returned when
// that one's lease ended.
func (q *queue) restoreLane(now time.Duration, l *lane, owner *waiter) {
	l.owner = owner
	for it := range l.items.all {
		switch outstanding := it.state == leased || it.state == ackedEarly; {
		case l.next == nil && !outstanding:
			l.next = it
		case l.next != nil && outstanding:
			q.undoDelivery(it)
		}
	}
	q.finishEarlyAcks(now, l)
}

// stop stops the queue's timer and closes the queue.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.closed = errStopped
	}
	if q.timer != nil {
		q.timer.Stop()
	}
}

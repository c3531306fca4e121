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
// delays that are over end with the first visit, as if on time; none lasts for
// longer than it may, though the machine's clock has gone back.
func (q *queue) restore(items []*item) {
	v := q.enter()
	defer v.leave()
	for _, it := range items {
		if it.state == acked {
			q.kept.pushBack(it)
			continue
		}
		state := it.state
		q.order.pushBack(it)
		q.load.add(it.msg)
		q.line(it)
		if state == available || state == behind {
			continue
		}
		if it.state == available {
			it.ready.remove(it)
			it.ready = nil
		}
		it.state = state
		switch state {
		case leased:
			it.due = min(it.due, v.now+maxAckDeadline)
			q.held[it.ack] = it
			heap.Push(&q.timed, it)
		case delayed:
			it.due = min(it.due, v.now+maxBackoff)
			heap.Push(&q.timed, it)
		default:
			it.state = dying
			q.spent = append(q.spent, it)
		}
	}
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

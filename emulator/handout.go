package emulator

import (
	"container/heap"
	"time"
)

// A visit is one operation on a queue: it holds the lock from enter to leave.
type visit struct {
	q   *queue
	now time.Duration
}

// enter locks the queue and settles what has fallen due.
func (q *queue) enter() visit {
	q.mu.Lock()
	v := visit{q, time.Since(q.epoch)}
	q.settleDue(v.now)
	return v
}

// leave hands what is available to those who wait, sees to the timer and
// unlocks.
func (v visit) leave() {
	v.q.handOut(v.now)
	v.q.arm(v.now)
	v.q.mu.Unlock()
}

// settleDue ends the leases that are over and drops what is older than the
// retention, leased or not.
func (q *queue) settleDue(now time.Duration) {
	for len(q.leases) > 0 && q.leases[0].due <= now {
		it := q.leases[0]
		q.unlease(it)
		q.makeAvailable(it, &q.returned)
		q.count.Expired++
	}
	for q.order.front != nil && q.order.front.msg.at+q.retention <= now {
		q.drop(q.order.front)
		q.count.Dropped++
	}
}

// handOut gives available messages to waiters, first come first served. When
// many wait for few, each gets its share: one greedy puller must not leave the
// others idle.
func (q *queue) handOut(now time.Duration) {
	for q.ready() > 0 && q.waiters.Len() > 0 {
		w := q.waiters.Front().Value.(*waiter)
		share := (q.ready() + q.waiters.Len() - 1) / q.waiters.Len()
		w.stopWaiting()
		if w.gone() != nil {
			continue // about to withdraw
		}
		if got := q.take(now, w, min(share, w.max)); got != nil {
			w.got <- got
		} else {
			q.await(w)
		}
	}
}

// await lets w wait for a message, or for credit first.
func (q *queue) await(w *waiter) {
	if w.flow.room(1) > 0 && (q.ready() == 0 || w.flow.fits(q.next().msg.size)) {
		w.wait(q.waiters)
		return
	}
	w.flow.parked = w
	w.wait(q.parked)
}

// take leases up to most available messages for w, as far as its credit goes.
func (q *queue) take(now time.Duration, w *waiter, most int) []delivery {
	most = min(w.flow.room(most), q.ready())
	lease := w.lease
	if lease == 0 {
		lease = q.lease
	}
	var got []delivery
	for size := 0; len(got) < most; {
		it := q.next()
		size += it.msg.size
		if !w.flow.fits(it.msg.size) || len(got) > 0 && size > maxPullBytes {
			break
		}
		if got == nil {
			got = make([]delivery, 0, most)
		}
		got = append(got, q.deliver(it, now+lease, w.flow))
	}
	return got
}

func (q *queue) deliver(it *item, due time.Duration, f *flow) delivery {
	it.ready.remove(it)
	it.ready = nil
	q.lastDelivery++
	it.state, it.ack, it.due, it.flow = leased, q.lastDelivery, due, f
	it.deliveries++
	f.add(it.msg.size)
	q.held[it.ack] = it
	heap.Push(&q.leases, it)

	q.count.Delivered++
	if it.deliveries > 1 {
		q.count.Redelivered++
	}
	return delivery{it.msg, it.ack}
}

// unlease ends the lease of it and leaves it in no state: the caller decides.
func (q *queue) unlease(it *item) {
	heap.Remove(&q.leases, it.index)
	delete(q.held, it.ack)
	f := it.flow
	it.flow = nil
	f.release(it.msg.size)
	if f != nil && f.parked != nil {
		w := f.parked
		f.parked = nil
		w.stopWaiting()
		q.await(w)
	}
}

func (q *queue) makeAvailable(it *item, l *itemList) {
	it.state, it.ready = available, l
	l.pushBack(it)
}

// drop makes it gone, whatever it was.
func (q *queue) drop(it *item) {
	switch it.state {
	case leased:
		q.unlease(it)
	case available:
		it.ready.remove(it)
		it.ready = nil
	case gone:
		return
	}
	q.order.remove(it)
	it.state = gone
}

// ready returns how many messages are available.
func (q *queue) ready() int { return q.returned.n + q.fresh.n }

// next returns the message to hand out next. There must be one.
func (q *queue) next() *item {
	if q.returned.n > 0 {
		return q.returned.front
	}
	return q.fresh.front
}

// arm sets the timer for the next thing to fall due. A timer that fires too
// early, because that thing has gone meanwhile, is left alone: setting it again
// for every lease would cost more than one idle call.
func (q *queue) arm(now time.Duration) {
	if q.order.front == nil || q.closed != nil {
		return
	}
	due := q.order.front.msg.at + q.retention
	if len(q.leases) > 0 {
		due = min(due, q.leases[0].due)
	}
	if q.armed != 0 && q.armed <= due {
		return
	}
	q.armed = due
	if q.timer == nil {
		q.timer = time.AfterFunc(due-now, q.wake)
	} else {
		q.timer.Reset(due - now)
	}
}

func (q *queue) wake() {
	v := q.enter()
	defer v.leave()
	q.armed = 0
}

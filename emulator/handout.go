package emulator

import (
	"container/heap"
	"slices"
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

// settleDue ends the leases and delays that are over and drops what is older
// than the retention, leased or not.
func (q *queue) settleDue(now time.Duration) {
	for len(q.timed) > 0 && q.timed[0].due <= now {
		it := q.timed[0]
		if it.state == delayed {
			heap.Remove(&q.timed, it.index)
			q.makeAvailable(it, &q.returned)
			continue
		}
		q.count.Expired++
		q.bounce(it, it.due)
	}
	for q.order.front != nil && q.ends(q.order.front) <= now {
		l := q.order.front.lane
		q.drop(q.order.front)
		q.finish(now, l)
		q.count.Dropped++
	}
	for q.kept.front != nil && q.ends(q.kept.front) <= now {
		q.kept.remove(q.kept.front)
	}
}

// ends returns when the retention of it is over.
func (q *queue) ends(it *item) time.Duration {
	return max(it.msg.at, q.since) + q.retention
}

// bounce ends the lease of a message that was not acknowledged, at the given
// time, and of those of its ordering key that are out behind it.
func (q *queue) bounce(it *item, at time.Duration) {
	q.recall(it, at)
	q.release(it, at)
}

// release ends the lease of one message that was not acknowledged, at the given
// time: it is given up, or waits, or is available again.
func (q *queue) release(it *item, at time.Duration) {
	q.unlease(it)
	if q.dead.spent(it.deliveries) {
		it.state = dying
		q.spent = append(q.spent, it)
		return
	}
	if wait := q.retry.wait(it.deliveries); wait > 0 {
		it.state, it.due = delayed, at+wait
		heap.Push(&q.timed, it)
		return
	}
	q.makeAvailable(it, &q.returned)
}

// handOut gives available messages to waiters, first come first served. When
// many wait for few, each gets its share: one greedy puller must not leave the
// others idle.
func (q *queue) handOut(now time.Duration) {
	for {
		from := q.favored
		if from.Len() == 0 {
			from = q.waiters
			if from.Len() == 0 || q.ready() == 0 {
				return
			}
		}
		w := from.Front().Value.(*waiter)
		waiting := q.waiters.Len() + q.favored.Len()
		share := (q.ready() + waiting - 1) / waiting
		w.stopWaiting()
		if w.gone() != nil {
			continue // about to withdraw
		}
		if got := q.take(now, w, share); got != nil {
			w.got <- got
		} else {
			q.await(w)
		}
	}
}

// await lets w wait for a message, or for credit first.
func (q *queue) await(w *waiter) {
	next := q.next(w)
	switch {
	case w.flow.room(1) == 0 || next != nil && !w.flow.fits(next.msg.size):
		w.flow.parked = w
		w.wait(q.parked)
	case w.own.n > 0:
		w.wait(q.favored)
	default:
		w.wait(q.waiters)
	}
}

// take leases available messages for w, as far as its wishes and its credit go:
// all that are for w alone, and of the others its share.
func (q *queue) take(now time.Duration, w *waiter, share int) []delivery {
	most := w.flow.room(w.max)
	lease := w.lease
	if lease == 0 {
		lease = q.lease
	}
	var got []delivery
	for size := 0; len(got) < most; {
		it := w.own.front
		if share > 0 {
			it = q.next(w)
		}
		if it == nil {
			break
		}
		size += it.msg.size
		if !w.flow.fits(it.msg.size) || len(got) > 0 && size > w.maxBytes {
			break
		}
		if it.ready != &w.own {
			share--
		}
		if got == nil {
			got = make([]delivery, 0, min(most, q.ready()+w.own.n))
		}
		got = append(got, q.deliver(it, now+lease, w))
	}
	return got
}

func (q *queue) deliver(it *item, due time.Duration, w *waiter) delivery {
	it.ready.remove(it)
	it.ready = nil
	q.lastDelivery++
	it.state, it.ack, it.due, it.flow = leased, q.lastDelivery, due, w.flow
	it.deliveries++
	it.flow.add(it.msg.size)
	q.held[it.ack] = it
	q.mostHeld = max(q.mostHeld, len(q.held))
	heap.Push(&q.timed, it)
	q.log.leased(it)
	q.handedOut(it, w)

	q.count.Delivered++
	if it.deliveries > 1 || it.again {
		q.count.Redelivered++
	}
	d := delivery{msg: it.msg, number: it.ack}
	if q.dead.maxAttempts > 0 {
		d.attempt = it.deliveries
	}
	return d
}

// unlease ends the lease of it and leaves it in no state: the caller decides.
func (q *queue) unlease(it *item) {
	heap.Remove(&q.timed, it.index)
	delete(q.held, it.ack)
	if len(q.held) == 0 && q.mostHeld > 4096 { // neither a map nor a slice shrinks
		q.held, q.mostHeld = make(map[uint64]*item), 0
		q.timed = slices.Clip(slices.Clone(q.timed))
	}
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

// makeAvailable puts an item that waits for nothing any more into l, if it is
// the turn of its ordering key.
func (q *queue) makeAvailable(it *item, l *itemList) {
	if it.lane == nil {
		it.state, it.ready = available, l
		l.pushBack(it)
		return
	}
	it.state = behind
	if it.lane.next == it {
		q.offer(it.lane, l)
	}
}

// done takes an acknowledged message out of the backlog, and keeps it if that
// was asked for and its retention has not ended.
func (q *queue) done(now time.Duration, it *item) {
	q.drop(it)
	if q.keep && q.ends(it) > now {
		it.state = acked
		q.kept.pushBack(it)
	}
}

// drop takes a message that is not acknowledged out of the backlog, whatever it
// was.
func (q *queue) drop(it *item) {
	switch it.state {
	case leased:
		q.unlease(it)
	case ackedEarly:
		delete(q.held, it.ack)
	case delayed:
		heap.Remove(&q.timed, it.index)
	case available:
		it.ready.remove(it)
		it.ready = nil
	case behind, dying:
	case acked, gone:
		return
	}
	it.state = gone
	q.order.remove(it)
	q.load.remove(it.msg)
	q.leaveLane(it)
}

// clear drops everything, the acknowledged too.
func (q *queue) clear() {
	for q.order.front != nil {
		q.drop(q.order.back) // from the back: nothing becomes available
	}
	for q.kept.front != nil {
		q.kept.remove(q.kept.front)
	}
	q.spent = nil
}

// ready returns how many messages are available to anyone.
func (q *queue) ready() int { return q.returned.n + q.fresh.n }

// freshEvery is which delivery is of a message that nobody has seen, if there is
// one: consumers that hand back what they cannot use must come to the rest.
const freshEvery = 8

// next returns the message to hand to w next, or nil: the oldest of the first of
// the lists, but for every freshEvery-th.
func (q *queue) next(w *waiter) *item {
	oldest := q.fresh.front
	if oldest != nil && q.lastDelivery%freshEvery == freshEvery-1 {
		return oldest
	}
	for _, it := range [...]*item{q.returned.front, w.own.front} {
		if oldest == nil || it != nil && it.msg.id < oldest.msg.id {
			oldest = it
		}
	}
	return oldest
}

// arm sets the timer for the next thing to fall due. A timer that fires too
// early, because that thing has gone meanwhile, is left alone: setting it again
// for every lease would cost more than one idle call.
func (q *queue) arm(now time.Duration) {
	due, any := q.nextDue(now)
	if !any || q.closed != nil || q.armed != 0 && q.armed <= due {
		return
	}
	q.armed = due
	if q.timer == nil {
		q.timer = time.AfterFunc(due-now, q.wake)
	} else {
		q.timer.Reset(due - now)
	}
}

// nextDue returns when something next happens by itself, and whether anything
// does.
func (q *queue) nextDue(now time.Duration) (due time.Duration, any bool) {
	if len(q.spent) > 0 {
		return now, true
	}
	sooner := func(d time.Duration) {
		if !any || d < due {
			due, any = d, true
		}
	}
	if q.order.front != nil {
		sooner(q.ends(q.order.front))
	}
	if q.kept.front != nil {
		sooner(q.ends(q.kept.front))
	}
	if len(q.timed) > 0 {
		sooner(q.timed[0].due)
	}
	return due, any
}

// wake does what has fallen due. It runs on the timer's own goroutine, which is
// the one place that holds no lock when messages are to be buried.
func (q *queue) wake() {
	v := q.enter()
	q.armed = 0
	spent := q.spent
	q.spent = nil
	v.leave()
	// Those of one ordering key came back the last first.
	slices.SortFunc(spent, func(a, b *item) int { return compareID(a.msg, b.msg.id) })
	for _, it := range spent {
		q.buried(it, q.bury(it.msg, it.deliveries))
	}
}

// buried ends the matter of a dying message: it is gone, or available again if
// it could not be published to the dead-letter topic.
func (q *queue) buried(it *item, err error) {
	defer q.enter().leave()
	switch {
	case it.state != dying: // a seek or the retention has decided otherwise
	case err != nil:
		q.makeAvailable(it, &q.returned)
	default:
		q.log.buried(it.msg.id)
		q.drop(it)
		q.count.DeadLettered++
	}
}

package emulator

import (
	"container/heap"
	"math"
	"slices"
	"time"
)

// A locked is a queue whose lock is held, and the time of one operation on it.
type locked struct {
	q   *queue
	now time.Duration
}

// lock locks the queue and does what has fallen due.
func (q *queue) lock() locked {
	q.mu.Lock()
	v := locked{q, time.Since(q.epoch)}
	q.processDue(v.now)
	return v
}

// unlock delivers what is available to the waiters, sets the timer and unlocks the
// queue.
func (v locked) unlock() {
	v.q.deliverWaiting(v.now)
	v.q.arm(v.now)
	v.q.mu.Unlock()
}

// processDue ends leases and delays whose time has come and drops messages that
// are older than the retention, leased or not.
func (q *queue) processDue(now time.Duration) {
	for len(q.timed) > 0 && q.timed[0].due <= now {
		it := q.timed[0]
		if it.state == delayed {
			heap.Remove(&q.timed, it.index)
			q.makeAvailable(it, &q.returned)
			continue
		}
		q.count.Expired++
		q.returnItem(it, it.due)
	}
	for q.order.front != nil && q.retentionEnd(q.order.front) <= now {
		l := q.order.front.lane
		q.drop(q.order.front)
		q.finishEarlyAcks(now, l)
		q.count.Dropped++
	}
	for q.ackedItems.front != nil && q.retentionEnd(q.ackedItems.front) <= now {
		q.ackedItems.remove(q.ackedItems.front)
	}
}

// retentionEnd returns when the retention of it ends.
func (q *queue) retentionEnd(it *item) time.Duration {
	return max(it.msg.at, q.lastSeek) + q.retention
}

// returnItem ends the lease of a message that was not acknowledged, at the given
// time, and of the outstanding ones of its ordering key that follow it.
func (q *queue) returnItem(it *item, at time.Duration) {
	q.returnFollowing(it, at)
	q.endLease(it, at)
}

// endLease ends the lease of one message that was not acknowledged, at the given
// time: the message is dead-lettered, or delayed by the retry policy, or available
// again.
func (q *queue) endLease(it *item, at time.Duration) {
	q.removeLease(it)
	if q.deadLetterPolicy.exhausted(it.deliveries) {
		it.state = deadLettering
		q.exhausted = append(q.exhausted, it)
		return
	}
	if wait := q.retry.wait(it.deliveries); wait > 0 {
		it.state, it.due = delayed, at+wait
		heap.Push(&q.timed, it)
		return
	}
	q.makeAvailable(it, &q.returned)
}

// deliverWaiting delivers available messages to waiters, first come first served.
// When there are more waiters than messages each one can take, they share: one
// greedy puller must not leave the others idle.
func (q *queue) deliverWaiting(now time.Duration) {
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
		if w.ctxErr() != nil {
			continue // about to cancel its wait
		}
		if got := q.take(now, w, share); got != nil {
			w.got <- got
		} else {
			q.await(w)
		}
	}
}

// await enters w into a list of waiters: for credit, if it has none, or for a
// message.
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

// take leases available messages for w, up to its limits and its credit: all that
// are for w alone, and of the others its share.
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
	q.outstanding[it.ack] = it
	q.maxOutstanding = max(q.maxOutstanding, len(q.outstanding))
	heap.Push(&q.timed, it)
	q.recordLease(it)
	q.advanceLane(it, w)

	q.count.Delivered++
	if it.deliveries > 1 || it.redelivered {
		q.count.Redelivered++
	}
	d := delivery{msg: it.msg, number: it.ack}
	if q.deadLetterPolicy.maxAttempts > 0 {
		d.attempt = it.deliveries
	}
	return d
}

// removeLease ends the lease of it. The caller then sets its state.
func (q *queue) removeLease(it *item) {
	heap.Remove(&q.timed, it.index)
	delete(q.outstanding, it.ack)
	if len(q.outstanding) == 0 && q.maxOutstanding > 4096 { // neither a map nor a slice shrinks
		q.outstanding, q.maxOutstanding = make(map[uint64]*item), 0
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

// makeAvailable adds an item to l, unless an earlier message of its ordering key
// blocks it.
func (q *queue) makeAvailable(it *item, l *itemList) {
	if it.lane == nil {
		it.state, it.ready = available, l
		l.pushBack(it)
		return
	}
	it.state = blocked
	if it.lane.next == it {
		q.offer(it.lane, l)
	}
}

// finishAck takes an acknowledged message out of the backlog, and retains it if
// the subscription retains acknowledged messages and its retention has not ended.
func (q *queue) finishAck(now time.Duration, it *item) {
	q.drop(it)
	if q.retainAcked && q.retentionEnd(it) > now {
		it.state = acked
		q.ackedItems.pushBack(it)
	}
}

// drop takes a message that is not acknowledged out of the backlog, in any state.
func (q *queue) drop(it *item) {
	switch it.state {
	case leased:
		q.removeLease(it)
	case ackedEarly:
		delete(q.outstanding, it.ack)
	case delayed:
		heap.Remove(&q.timed, it.index)
	case available:
		it.ready.remove(it)
		it.ready = nil
	case blocked, deadLettering:
	case acked, removed:
		return
	}
	it.state = removed
	q.order.remove(it)
	q.load.remove(it.msg)
	q.leaveLane(it)
}

// clear drops all messages, acknowledged ones too.
func (q *queue) clear() {
	for q.order.front != nil {
		q.drop(q.order.back) // from the back: nothing becomes available
	}
	for q.ackedItems.front != nil {
		q.ackedItems.remove(q.ackedItems.front)
	}
	q.exhausted = nil
}

// ready returns how many messages are available to anyone.
func (q *queue) ready() int { return q.returned.n + q.fresh.n }

// freshEvery makes every eighth delivery one of a message that was never delivered,
// if there is one: consumers that nack what they cannot use must reach the others.
const freshEvery = 8

// next returns the message to deliver to w next, or nil: the oldest of the first of
// the lists, except for every freshEvery-th delivery.
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

// arm sets the timer for the next due time. A timer that would fire too early,
// because a lease has ended meanwhile, is not set again: that would cost more for
// every lease than one needless call.
func (q *queue) arm(now time.Duration) {
	due := q.nextDue(now)
	if due == never || q.closed != nil || q.armed != 0 && q.armed <= due {
		return
	}
	q.armed = due
	if q.timer == nil {
		q.timer = time.AfterFunc(due-now, q.wake)
	} else {
		q.timer.Reset(due - now)
	}
}

const never = time.Duration(math.MaxInt64)

// nextDue returns the next due time of the queue.
func (q *queue) nextDue(now time.Duration) time.Duration {
	if len(q.exhausted) > 0 {
		return now
	}
	due := never
	if q.order.front != nil {
		due = q.retentionEnd(q.order.front)
	}
	if q.ackedItems.front != nil {
		due = min(due, q.retentionEnd(q.ackedItems.front))
	}
	if len(q.timed) > 0 {
		due = min(due, q.timed[0].due)
	}
	return due
}

// wake does what has fallen due. It runs on the timer's own goroutine, which holds
// no lock when it publishes dead letters.
func (q *queue) wake() {
	v := q.lock()
	q.armed = 0
	exhausted := q.exhausted
	q.exhausted = nil
	v.unlock()
	// Messages of one ordering key were returned the last first.
	slices.SortFunc(exhausted, func(a, b *item) int { return compareID(a.msg, b.msg.id) })
	for _, it := range exhausted {
		q.finishDeadLetter(it, q.publishDeadLetter(it.msg, it.deliveries))
	}
}

// finishDeadLetter removes a message that was published to the dead-letter topic;
// if that failed, the message is available again.
func (q *queue) finishDeadLetter(it *item, err error) {
	defer q.lock().unlock()
	switch {
	case it.state != deadLettering: // a seek or the retention has removed it
	case err != nil:
		q.makeAvailable(it, &q.returned)
	default:
		q.record(recDeadLettered, it.msg.id)
		q.drop(it)
		q.count.DeadLettered++
	}
}

package emulator

import (
	"cmp"
	"container/heap"
	"container/list"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// A queue is the state of one subscription. Each of its messages is at any time
// in exactly one itemState. Messages are delivered in the order they were
// published; returned ones are older and come first. Those of one ordering key are
// in a lane.
//
// One timer serves all leases, delays and the retention. It may fire late on a
// busy machine, so every operation first does what has fallen due by its own
// reading of the clock: a lease that has ended is never seen.
//
// All methods may be called concurrently. None blocks, but for the lock, which
// is taken after those of the broker and the topic.
type queue struct {
	epoch    time.Time  // where its clock starts, the broker's
	instance uint64     // in its ack ids: distinguishes them from those of any other queue
	log      *stableLog // records what must survive the process
	load     *load      // shared by all queues of a broker
	// publishDeadLetter publishes a message to the dead-letter topic, with the
	// number of its deliveries. It is called without the lock.
	publishDeadLetter func(m *message, deliveries int32) error

	mu sync.Mutex
	settings
	closed   error         // why it is closed, the error of a pull from it; or nil
	lastSeek time.Duration // retention counts from then on

	order          itemList // every message not acknowledged, in the order published
	ackedItems     itemList // acknowledged and retained, in the order acknowledged
	fresh          itemList // available, never delivered
	returned       itemList // available again
	lanes          map[string]*lane
	timed          dueHeap          // leased and delayed
	outstanding    map[uint64]*item // leased or ackedEarly, by the number of the delivery
	maxOutstanding int              // the largest len(outstanding) since the map was made
	exhausted      []*item          // deadLettering: to be published to the dead-letter topic

	lastDelivery uint64
	waiters      *list.List    // of *waiter: want a message
	favored      *list.List    // of *waiter: want a message, and some of their own are available; empty between visits
	parked       *list.List    // of *waiter: want a message, but have no credit
	lastActive   time.Duration // the last call that used it

	timer *time.Timer
	armed time.Duration // when timer fires; 0 when it does not

	count Counters
}

// A delivery is one message delivered to one puller.
type delivery struct {
	msg     *message
	number  uint64
	attempt int32 // from 1; 0 without a dead-letter policy
}

func newQueue(epoch time.Time, s settings) *queue {
	return &queue{
		epoch:       epoch,
		instance:    rand.Uint64(),
		load:        newLoad(),
		settings:    s,
		order:       itemList{which: inOrder},
		ackedItems:  itemList{which: inOrder},
		fresh:       itemList{which: inReady},
		returned:    itemList{which: inReady},
		lanes:       make(map[string]*lane),
		outstanding: make(map[uint64]*item),
		waiters:     list.New(),
		favored:     list.New(),
		parked:      list.New(),
		lastActive:  time.Since(epoch),
	}
}

// configure changes the settings of the queue. Leases and delays that have begun
// stay as they are. What is due by the old settings is done first; record is called
// before anything happens under the new ones.
func (q *queue) configure(s settings, record func(now time.Duration)) {
	v := q.lock()
	defer v.unlock()
	q.settings = s
	record(v.now)
	q.lastActive = v.now
	for !q.retainAcked && q.ackedItems.front != nil {
		q.ackedItems.remove(q.ackedItems.front)
	}
}

// setLease changes the lease of what is delivered to w from now on.
func (q *queue) setLease(w *waiter, lease time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.lease = lease
}

// publish adds those of msgs at the end that pass the filter. A closed queue
// drops them.
func (q *queue) publish(msgs []*message) {
	defer q.lock().unlock()
	if q.closed != nil {
		return
	}
	for _, m := range msgs {
		if q.matches(m) {
			q.add(m)
			q.count.Published++
		}
	}
}

// add puts a message in at the end.
func (q *queue) add(m *message) {
	it := &item{msg: m}
	q.order.pushBack(it)
	q.load.add(m)
	q.enqueue(it)
}

// pullOrWait returns messages for w at once, or none: then w waits, and the next
// ones are sent on w.got. The error is why the queue is closed.
func (q *queue) pullOrWait(w *waiter) ([]delivery, error) {
	v := q.lock()
	defer v.unlock()
	got, err := q.pullNow(v.now, w)
	if err == nil && got == nil {
		q.await(w)
	}
	return got, err
}

// poll is pullOrWait for a puller that does not wait.
func (q *queue) poll(w *waiter) ([]delivery, error) {
	v := q.lock()
	defer v.unlock()
	return q.pullNow(v.now, w)
}

func (q *queue) pullNow(now time.Duration, w *waiter) ([]delivery, error) {
	if q.closed != nil {
		return nil, q.closed
	}
	q.lastActive = now
	if w.ctxErr() == nil {
		return q.take(now, w, w.max), nil
	}
	return nil, nil
}

// cancelWait ends the wait of w. What was delivered to it meanwhile is undelivered.
func (q *queue) cancelWait(w *waiter) {
	v := q.lock()
	defer v.unlock()
	q.lastActive = v.now
	if w.flow != nil {
		w.flow.parked = nil // credit that comes later must not enter it again
	}
	if w.stopWaiting() {
		return
	}
	select {
	case got := <-w.got:
		q.undeliverLocked(v.now, got)
	default:
	}
}

// undeliver undoes deliveries that never reached a client: their messages are
// available at once, before all others unless they have an ordering key, and the
// deliveries are not counted.
func (q *queue) undeliver(ds []delivery) {
	v := q.lock()
	defer v.unlock()
	q.undeliverLocked(v.now, ds)
}

func (q *queue) undeliverLocked(now time.Duration, ds []delivery) {
	for _, d := range slices.Backward(ds) { // so that their order is kept
		it := q.outstanding[d.number]
		if it == nil || it.state != leased {
			continue // settled already
		}
		q.count.Delivered--
		if it.deliveries > 1 || it.redelivered {
			q.count.Redelivered--
		}
		q.returnFollowing(it, now)
		q.undoDelivery(it)
		if it.lane != nil {
			q.offer(it.lane, &q.returned)
			continue
		}
		it.state, it.ready = available, &q.returned
		q.returned.pushFront(it)
	}
}

// acknowledge acknowledges the messages of the given deliveries. It returns the
// indexes in numbers of those that it ignores: stale ones,
// whose lease has ended, and, where delivery is exactly once, early ones, which
// an unacknowledged message of the same ordering key precedes. Elsewhere an
// early ack counts, unless that message is returned first.
func (q *queue) acknowledge(numbers []uint64) (stale, early []int) {
	v := q.lock()
	defer v.unlock()
	q.lastActive = v.now
	for _, i := range q.deliveryOrder(numbers) {
		n := numbers[i]
		it := q.outstanding[n]
		switch {
		case it == nil || it.state != leased:
			stale = append(stale, i)
		case it.lane == nil || it.lane.items.front == it:
			q.record(recAcked, n)
			q.count.Acked++
			l := it.lane
			q.finishAck(v.now, it)
			q.finishEarlyAcks(v.now, l)
		case q.exact:
			early = append(early, i)
		default:
			q.record(recAckedEarly, n)
			q.count.Acked++
			q.removeLease(it)
			q.outstanding[n], it.state = it, ackedEarly
		}
	}
	slices.Sort(stale)
	slices.Sort(early)
	return stale, early
}

// deliveryOrder returns the indexes in numbers in the order in which messages of
// one ordering key were delivered.
func (q *queue) deliveryOrder(numbers []uint64) []int {
	places := make([]int, len(numbers))
	for i := range places {
		places[i] = i
	}
	if q.ordered {
		slices.SortFunc(places, func(i, j int) int { return cmp.Compare(numbers[i], numbers[j]) })
	}
	return places
}

// returnOrder returns the indexes in numbers in the order in which messages are to
// be returned: those without an ordering key as given, and of each key the last
// first. To return one returns those after it, too, and each of these must count as
// nacked itself.
func (q *queue) returnOrder(numbers []uint64) []int {
	free := q.deliveryOrder(numbers)
	var keyed []int
	free = slices.DeleteFunc(free, func(i int) bool {
		it := q.outstanding[numbers[i]]
		if it == nil || it.lane == nil {
			return false
		}
		keyed = append(keyed, i)
		return true
	})
	slices.Reverse(keyed)
	return append(free, keyed...)
}

// extend sets the end of the given deliveries' leases to d from now; 0 is a nack.
// It returns the indexes in numbers of those whose lease has ended; they are
// ignored.
func (q *queue) extend(numbers []uint64, d time.Duration) (stale []int) {
	v := q.lock()
	defer v.unlock()
	q.lastActive = v.now
	for _, i := range q.returnOrder(numbers) {
		n := numbers[i]
		it := q.outstanding[n]
		switch {
		case it == nil || it.state != leased:
			stale = append(stale, i)
		case d == 0:
			q.record(recReturned, n, v.now)
			q.returnItem(it, v.now)
			q.count.Nacked++
		default:
			it.due = v.now + d
			q.record(recExtended, n, it.due)
			heap.Fix(&q.timed, it.index)
		}
	}
	slices.Sort(stale)
	return stale
}

// close drops all messages and ends all waits with why. Later calls do nothing.
func (q *queue) close(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return
	}
	q.closed = why
	q.clear()
	for _, l := range []*list.List{q.waiters, q.favored, q.parked} {
		for l.Len() > 0 {
			w := l.Front().Value.(*waiter)
			w.stopWaiting()
			close(w.got)
		}
	}
	if q.timer != nil {
		q.timer.Stop()
	}
}

// whyClosed returns the reason given to close, or nil.
func (q *queue) whyClosed() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

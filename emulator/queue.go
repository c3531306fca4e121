package emulator

import (
	"cmp"
	"container/heap"
	"container/list"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Why a queue is closed; what a pull from it is told.
var (
	errSubscriptionDeleted  = errors.New("subscription deleted")
	errSubscriptionDetached = errors.New("subscription detached")
)

// A queue is the state of one subscription. Each of its messages is at any time
// in exactly one itemState. Messages are handed out in the order they were
// published; those that came back from a lease are the older ones and come
// first. Those of one ordering key are in a lane.
//
// One timer serves all leases, delays and the retention. It may fire late on a
// busy machine, so every operation first settles what has fallen due by its own
// reading of the clock: nobody sees a lease that has ended.
//
// All methods may be called concurrently. None blocks, but for the lock, which
// is taken after those of the broker and the topic.
type queue struct {
	epoch    time.Time // where its clock starts, the broker's
	instance uint64    // tells its ack ids from those of any other queue
	log      queueLog  // what must survive the process
	load     *load     // shared by all queues of a broker
	// bury publishes a message to the dead-letter topic, with what its last
	// delivery says of it. It is called without the lock.
	bury func(m *message, deliveries int32) error

	mu sync.Mutex
	settings
	closed error         // why it is closed, or nil
	since  time.Duration // of the last seek: retention begins anew then

	order    itemList // every message not acknowledged, in the order published
	kept     itemList // acknowledged and retained, in the order acknowledged
	fresh    itemList // available, never delivered
	returned itemList // available again
	lanes    map[string]*lane
	timed    dueHeap          // leased and delayed
	held     map[uint64]*item // leased or ackedEarly, by the number of the delivery
	mostHeld int              // at once, since held was last made
	spent    []*item          // dying, to be taken to the dead-letter topic

	lastDelivery uint64
	waiters      *list.List    // of *waiter: want a message
	favored      *list.List    // of *waiter: want a message, and some of their own are available; empty between visits
	parked       *list.List    // of *waiter: want a message, but have no credit
	active       time.Duration // when somebody last did something with it

	timer *time.Timer
	armed time.Duration // when timer fires; 0 when it does not

	count Counters
}

// A delivery is one message handed to one puller.
type delivery struct {
	msg     *message
	number  uint64
	attempt int32 // from 1; 0 without a dead-letter policy
}

func newQueue(epoch time.Time, s settings) *queue {
	return &queue{
		epoch:    epoch,
		instance: rand.Uint64(),
		load:     newLoad(),
		settings: s,
		order:    itemList{which: inOrder},
		kept:     itemList{which: inOrder},
		fresh:    itemList{which: inReady},
		returned: itemList{which: inReady},
		lanes:    make(map[string]*lane),
		held:     make(map[uint64]*item),
		waiters:  list.New(),
		favored:  list.New(),
		parked:   list.New(),
		active:   time.Since(epoch),
	}
}

// configure changes what is asked of the queue. Leases that run and delays that
// have begun stay as they are. What the old settings
// had to say until now is done; record is called before anything happens under
// the new ones.
func (q *queue) configure(s settings, record func(now time.Duration)) {
	v := q.enter()
	defer v.leave()
	q.settings = s
	record(v.now)
	q.active = v.now
	for !q.keep && q.kept.front != nil {
		q.kept.remove(q.kept.front)
	}
}

// setLease changes the lease of what w is handed from now on.
func (q *queue) setLease(w *waiter, lease time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.lease = lease
}

// publish adds those of msgs at the end that pass the filter. A closed queue
// drops them.
func (q *queue) publish(msgs []*message) {
	defer q.enter().leave()
	if q.closed != nil {
		return
	}
	for _, m := range msgs {
		if q.wants(m) {
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
	q.line(it)
}

// ask returns messages for w at once, or none and lets w wait: the next ones
// will be sent on w.got. The error says why the queue is closed.
func (q *queue) ask(w *waiter) ([]delivery, error) {
	v := q.enter()
	defer v.leave()
	got, err := q.askNow(v.now, w)
	if err == nil && got == nil {
		q.await(w)
	}
	return got, err
}

// poll is ask for a puller that does not wait.
func (q *queue) poll(w *waiter) ([]delivery, error) {
	v := q.enter()
	defer v.leave()
	return q.askNow(v.now, w)
}

func (q *queue) askNow(now time.Duration, w *waiter) ([]delivery, error) {
	if q.closed != nil {
		return nil, q.closed
	}
	q.active = now
	if w.gone() == nil {
		return q.take(now, w, w.max), nil
	}
	return nil, nil
}

// withdraw ends the wait of w. What was handed to it meanwhile goes back.
func (q *queue) withdraw(w *waiter) {
	v := q.enter()
	defer v.leave()
	q.active = v.now
	if w.flow != nil {
		w.flow.parked = nil // credit that comes must not let it wait again
	}
	if w.stopWaiting() {
		return
	}
	select {
	case got := <-w.got:
		q.takeBack(v.now, got)
	default:
	}
}

// giveBack undoes deliveries that never reached a client: their messages are
// available at once, before all others unless they have an ordering key, and the
// deliveries are not counted.
func (q *queue) giveBack(ds []delivery) {
	v := q.enter()
	defer v.leave()
	q.takeBack(v.now, ds)
}

func (q *queue) takeBack(now time.Duration, ds []delivery) {
	for _, d := range slices.Backward(ds) { // so that the first comes first again
		it := q.held[d.number]
		if it == nil || it.state != leased {
			continue // settled already
		}
		q.count.Delivered--
		if it.deliveries > 1 || it.again {
			q.count.Redelivered--
		}
		q.recall(it, now)
		q.undo(it)
		if it.lane != nil {
			q.offer(it.lane, &q.returned)
			continue
		}
		it.state, it.ready = available, &q.returned
		q.returned.pushFront(it)
	}
}

// acknowledge makes the messages of the given deliveries done for good. It
// returns the places in numbers of those to which nothing happens: stale ones,
// whose lease has ended, and, where delivery is exactly once, early ones, which
// an unacknowledged message of the same ordering key precedes. Elsewhere an
// early ack counts, unless that message comes back first.
func (q *queue) acknowledge(numbers []uint64) (stale, early []int) {
	v := q.enter()
	defer v.leave()
	q.active = v.now
	for _, i := range q.inTurn(numbers) {
		n := numbers[i]
		it := q.held[n]
		switch {
		case it == nil || it.state != leased:
			stale = append(stale, i)
		case it.lane == nil || it.lane.items.front == it:
			q.log.acked(n)
			q.count.Acked++
			l := it.lane
			q.done(v.now, it)
			q.finish(v.now, l)
		case q.exact:
			early = append(early, i)
		default:
			q.log.ackedEarly(n)
			q.count.Acked++
			q.unlease(it)
			q.held[n], it.state = it, ackedEarly
		}
	}
	slices.Sort(stale)
	slices.Sort(early)
	return stale, early
}

// inTurn returns the places in numbers in the order in which messages of one
// ordering key were handed out.
func (q *queue) inTurn(numbers []uint64) []int {
	places := make([]int, len(numbers))
	for i := range places {
		places[i] = i
	}
	if q.ordered {
		slices.SortFunc(places, func(i, j int) int { return cmp.Compare(numbers[i], numbers[j]) })
	}
	return places
}

// inReturn returns the places in numbers in the order in which messages are to
// come back: those without an ordering key as given, and of each key the last
// first. For that takes those behind it with it, which must count as handed back
// themselves.
func (q *queue) inReturn(numbers []uint64) []int {
	free := q.inTurn(numbers)
	var keyed []int
	free = slices.DeleteFunc(free, func(i int) bool {
		it := q.held[numbers[i]]
		if it == nil || it.lane == nil {
			return false
		}
		keyed = append(keyed, i)
		return true
	})
	slices.Reverse(keyed)
	return append(free, keyed...)
}

// extend sets the end of the given deliveries' leases to d from now; 0 hands
// their messages back. It returns the places in numbers of those whose lease has
// ended; nothing happens to them.
func (q *queue) extend(numbers []uint64, d time.Duration) (stale []int) {
	v := q.enter()
	defer v.leave()
	q.active = v.now
	for _, i := range q.inReturn(numbers) {
		n := numbers[i]
		it := q.held[n]
		switch {
		case it == nil || it.state != leased:
			stale = append(stale, i)
		case d == 0:
			q.log.returned(n, v.now)
			q.bounce(it, v.now)
			q.count.Nacked++
		default:
			it.due = v.now + d
			q.log.extended(n, it.due)
			heap.Fix(&q.timed, it.index)
		}
	}
	slices.Sort(stale)
	return stale
}

// close drops all messages and ends all waits with why. Only the first call
// counts.
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

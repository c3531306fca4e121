package emulator

import (
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
// exactly one of: available, leased, gone. Messages are handed out in the order
// they were published, those that came back from a lease first.
//
// One timer serves all leases and the retention. It may fire late on a busy
// machine, so every operation first settles what has fallen due by its own
// reading of the clock: nobody sees a lease that has ended.
//
// All methods may be called concurrently. None blocks, but for the lock.
type queue struct {
	epoch    time.Time // where its clock starts, the broker's
	instance uint64    // tells its ack ids from those of any other queue

	mu        sync.Mutex
	lease     time.Duration // of a delivery, unless the puller says otherwise
	retention time.Duration
	closed    error // why it is closed, or nil

	order    itemList // every message not gone, in the order published
	fresh    itemList // available, never delivered
	returned itemList // available again
	leases   leaseHeap
	held     map[uint64]*item // leased, by the number of the delivery

	lastDelivery uint64
	waiters      *list.List // of *waiter: want a message
	parked       *list.List // of *waiter: want a message, but have no credit

	timer *time.Timer
	armed time.Duration // when timer fires; 0 when it does not

	count Counters
}

// A delivery is one message handed to one puller.
type delivery struct {
	msg    *message
	number uint64
}

func newQueue(epoch time.Time, lease, retention time.Duration) *queue {
	return &queue{
		epoch:     epoch,
		instance:  rand.Uint64(),
		lease:     lease,
		retention: retention,
		order:     itemList{which: inOrder},
		fresh:     itemList{which: inReady},
		returned:  itemList{which: inReady},
		held:      make(map[uint64]*item),
		waiters:   list.New(),
		parked:    list.New(),
	}
}

// configure changes the lease of later deliveries and the retention of all
// messages.
func (q *queue) configure(lease, retention time.Duration) {
	defer q.enter().leave()
	q.lease, q.retention = lease, retention
}

// setLease changes the lease of what w is handed from now on.
func (q *queue) setLease(w *waiter, lease time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.lease = lease
}

// publish adds msgs at the end. A closed queue drops them.
func (q *queue) publish(msgs []*message) {
	defer q.enter().leave()
	if q.closed != nil {
		return
	}
	for _, m := range msgs {
		it := &item{msg: m}
		q.order.pushBack(it)
		q.makeAvailable(it, &q.fresh)
	}
	q.count.Published += uint64(len(msgs))
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
	if w.gone() == nil {
		return q.take(now, w, w.max), nil
	}
	return nil, nil
}

// withdraw ends the wait of w. What was handed to it meanwhile goes back.
func (q *queue) withdraw(w *waiter) {
	defer q.enter().leave()
	if w.stopWaiting() {
		return
	}
	select {
	case got := <-w.got:
		q.takeBack(got)
	default:
	}
}

// giveBack undoes deliveries that never reached a client: their messages are
// available at once, before all others, and the deliveries are not counted.
func (q *queue) giveBack(ds []delivery) {
	defer q.enter().leave()
	q.takeBack(ds)
}

func (q *queue) takeBack(ds []delivery) {
	for _, d := range slices.Backward(ds) { // so that the first comes first again
		it := q.held[d.number]
		if it == nil {
			continue // settled already
		}
		q.unlease(it)
		q.count.Delivered--
		if it.deliveries > 1 {
			q.count.Redelivered--
		}
		it.deliveries--
		it.state, it.ready = available, &q.returned
		q.returned.pushFront(it)
	}
}

// acknowledge makes the messages of the given deliveries gone for good.
// Deliveries whose lease has ended are passed over.
func (q *queue) acknowledge(numbers []uint64) {
	defer q.enter().leave()
	for _, n := range numbers {
		if it := q.held[n]; it != nil {
			q.drop(it)
			q.count.Acked++
		}
	}
}

// extend sets the end of the given deliveries' leases to d from now; 0 makes
// their messages available at once. Deliveries whose lease has ended are passed
// over.
func (q *queue) extend(numbers []uint64, d time.Duration) {
	v := q.enter()
	defer v.leave()
	for _, n := range numbers {
		it := q.held[n]
		switch {
		case it == nil:
		case d == 0:
			q.unlease(it)
			q.makeAvailable(it, &q.returned)
			q.count.Nacked++
		default:
			it.due = v.now + d
			heap.Fix(&q.leases, it.index)
		}
	}
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
	for q.order.front != nil {
		q.drop(q.order.front)
	}
	for _, l := range []*list.List{q.waiters, q.parked} {
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

package emulator

import (
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// A message is one published message, shared by every subscription that still
// has to see it acknowledged; the last of them to drop it frees the body. It
// is never changed.
type message struct {
	pb   *pubsubpb.PubsubMessage
	size int           // bytes of data, attributes and ordering key
	at   time.Duration // when it was published, on the broker's clock
}

// An item is one message in one queue. The queue's lock guards it.
type item struct {
	msg   *message
	state itemState
	// deliveries counts how often the message was handed out. Google shows it to
	// clients only under a dead-letter policy.
	deliveries int32

	// place links the item into queue.order, and into one of the ready lists
	// while it is available.
	place [2]link
	ready *itemList // the ready list it is in

	// While leased:
	due   time.Duration // when the lease ends
	ack   uint64        // the number of this delivery, the changing part of its ack id
	index int           // in queue.leases
	flow  *flow         // the stream whose credit it uses; nil for a unary pull
}

type itemState uint8

const (
	available itemState = iota + 1
	leased
	gone // acknowledged, or older than the retention
)

// An itemList is a doubly linked list of items through their own links, so that
// taking an item out of the middle costs the same as taking the first, and
// nothing is allocated.
type itemList struct {
	which       int // the place its items use: inOrder or inReady
	front, back *item
	n           int
}

type link struct{ prev, next *item }

const (
	inOrder = iota
	inReady
)

func (l *itemList) pushBack(it *item) {
	it.place[l.which] = link{prev: l.back}
	if l.back == nil {
		l.front = it
	} else {
		l.back.place[l.which].next = it
	}
	l.back = it
	l.n++
}

func (l *itemList) pushFront(it *item) {
	it.place[l.which] = link{next: l.front}
	if l.front == nil {
		l.back = it
	} else {
		l.front.place[l.which].prev = it
	}
	l.front = it
	l.n++
}

func (l *itemList) remove(it *item) {
	at := it.place[l.which]
	if at.prev == nil {
		l.front = at.next
	} else {
		at.prev.place[l.which].next = at.next
	}
	if at.next == nil {
		l.back = at.prev
	} else {
		at.next.place[l.which].prev = at.prev
	}
	it.place[l.which] = link{}
	l.n--
}

// leaseHeap orders the leased items by the end of their leases, and those that
// end together by delivery. It implements heap.Interface.
type leaseHeap []*item

func (h leaseHeap) Len() int { return len(h) }

func (h leaseHeap) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].ack < h[j].ack
}

func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *leaseHeap) Push(x any) {
	it := x.(*item)
	it.index = len(*h)
	*h = append(*h, it)
}

func (h *leaseHeap) Pop() any {
	old := *h
	last := len(old) - 1
	it := old[last]
	old[last] = nil // let the body go
	*h = old[:last]
	return it
}

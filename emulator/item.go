package emulator

import (
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// A message is one published message, shared by everything that still needs
// it; the last to drop it frees the body. It is never changed.
type message struct {
	pb   *pubsubpb.PubsubMessage
	id   uint64        // the number in its message id; rises within a topic
	size int           // bytes of data, attributes and ordering key
	at   time.Duration // when it was published, on the broker's clock
}

// An item is one message in one queue. The queue's lock guards it.
type item struct {
	msg   *message
	state itemState
	// deliveries counts how often the message was delivered. Clients see it only
	// under a dead-letter policy.
	deliveries int32
	// redelivered means that there were more deliveries than deliveries counts:
	// those that were undone do not count.
	redelivered bool

	// place links the item into one list of each kind.
	place [3]link
	ready *itemList // while it is available: the list it is in, of the queue or of one waiter
	lane  *lane     // those with the same ordering key; nil where order is free

	due   time.Duration // while leased or delayed: when that ends
	index int           // in queue.timed, likewise
	ack   uint64        // while leased or ackedEarly: the number of this delivery, the changing part of its ack id
	flow  *flow         // while leased: the stream whose credit it uses; nil for a unary pull
}

// An itemState is on disk: no number ever changes.
type itemState uint8

const (
	available itemState = iota + 1
	blocked             // by an earlier message of its ordering key that is not yet outstanding
	leased
	delayed       // returned, and the retry policy makes it wait
	deadLettering // on its way to the dead-letter topic
	acked         // acknowledged, and retained for a seek
	removed
	ackedEarly // acknowledged, but an earlier message of its ordering key is not
)

// An itemList is a doubly linked list of items through their own links, so that
// taking an item out of the middle costs the same as taking the first, and
// nothing is allocated.
type itemList struct {
	which       int // the place its items use
	front, back *item
	n           int
}

type link struct{ prev, next *item }

// The places of an item.
const (
	inOrder = iota // queue.order or queue.ackedItems
	inReady        // queue.fresh, queue.returned or waiter.own
	inLane         // lane.items
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

// all yields the items from the front. The list must not change meanwhile.
func (l *itemList) all(yield func(*item) bool) {
	for it := l.front; it != nil; it = it.place[l.which].next {
		if !yield(it) {
			return
		}
	}
}

// A dueHeap orders leased and delayed items by when that ends, and those that
// end together by delivery. It implements heap.Interface.
type dueHeap []*item

func (h dueHeap) Len() int { return len(h) }

func (h dueHeap) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].ack < h[j].ack
}

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap) Push(x any) {
	it := x.(*item)
	it.index = len(*h)
	*h = append(*h, it)
}

func (h *dueHeap) Pop() any {
	old := *h
	last := len(old) - 1
	it := old[last]
	old[last] = nil // so that the body can be freed
	*h = old[:last]
	return it
}

package emulator

import (
	"container/list"
	"time"
)

// A waiter is one pull, waiting or about to wait: its limits, and where messages
// are delivered to it. A unary pull makes one; a stream uses one for all its calls
// of pullOrWait, one at a time.
type waiter struct {
	max      int           // messages at once, at least 1
	maxBytes int           // of them together, unless one alone is larger
	lease    time.Duration // 0 means the subscription's ack deadline
	flow     *flow         // nil when nothing bounds what is outstanding
	ctxErr   func() error  // the puller's ctx.Err: after its end, nothing is delivered
	// got receives messages once for each pullOrWait that had to wait, and is closed
	// when the queue is. It has room for one, so sending never blocks.
	got chan []delivery

	in    *list.List // where it waits, a list of the queue, or nil
	place *list.Element

	// own holds the next message of each ordering key whose earlier ones are
	// outstanding at this puller.
	own itemList
}

func newWaiter(most int, gone func() error) *waiter {
	return &waiter{
		max: most, maxBytes: maxPullBytes, ctxErr: gone,
		got: make(chan []delivery, 1), own: itemList{which: inReady},
	}
}

// wait puts w at the end of l.
func (w *waiter) wait(l *list.List) {
	w.in, w.place = l, l.PushBack(w)
}

// stopWaiting takes w out of its list and reports whether it waited.
func (w *waiter) stopWaiting() bool {
	if w.in == nil {
		return false
	}
	w.in.Remove(w.place)
	w.in, w.place = nil, nil
	return true
}

// A flow is the credit of one stream: how much may be outstanding on it, that
// is delivered and neither acknowledged, nor nacked, nor expired. The
// queue's lock guards it.
type flow struct {
	maxCount, maxBytes int // 0 means no limit
	count, bytes       int
	parked             *waiter // the stream's waiter, while it waits for credit
}

// room returns how many more messages the flow has credit for, at most most.
func (f *flow) room(most int) int {
	if f == nil {
		return most
	}
	if f.maxBytes > 0 && f.bytes >= f.maxBytes {
		return 0
	}
	if f.maxCount > 0 {
		most = min(most, f.maxCount-f.count)
	}
	return max(most, 0)
}

// fits reports whether a message of size bytes may follow. The first one always
// may: a message larger than the whole credit must still be delivered.
func (f *flow) fits(size int) bool {
	return f == nil || f.maxBytes == 0 || f.count == 0 || f.bytes+size <= f.maxBytes
}

func (f *flow) add(size int) {
	if f != nil {
		f.count++
		f.bytes += size
	}
}

func (f *flow) release(size int) {
	if f != nil {
		f.count--
		f.bytes -= size
	}
}

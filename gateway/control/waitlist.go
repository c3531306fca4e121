package control

import (
	"container/list"
	"sync"
)

// waitlist holds requests that wait, the longest first: for a job, by their worker, or
// for their job to be canceled, by that. Its methods may be called concurrently.
type waitlist struct {
	mu      sync.Mutex
	line    list.List // of *waiter
	most    int
	share   int                             // of them, how many may have one key
	of      map[string]map[*waiter]struct{} // those in the line, by key
	missed  uint64                          // counts calls of wakeFirst while none waited
	arrived chan struct{}                   // holds one when somebody has begun to wait
}

// waiter is one of them.
type waiter struct {
	woken chan struct{} // holds one when it was woken
	key   string
	place *list.Element // nil once it is out of the line
}

func (l *waitlist) init(most, share int) {
	l.most, l.share, l.of, l.arrived = most, share, map[string]map[*waiter]struct{}{}, make(chan struct{}, 1)
}

// seen is called before one looks for a job, and its value handed to join: a job that
// comes in between is not missed.
func (l *waitlist) seen() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missed
}

// join begins to wait; one that has missed a job since seen is woken at once. It returns
// nil when too many wait already, of all or with this key: one that waits with many
// requests must not keep others from waiting.
func (l *waitlist) join(seen uint64, key string) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	me := &waiter{woken: make(chan struct{}, 1), key: key}
	if l.missed != seen {
		me.woken <- struct{}{}
		return me
	}
	if l.line.Len() >= l.most || len(l.of[key]) >= l.share {
		return nil
	}
	me.place = l.line.PushBack(me)
	if l.of[key] == nil {
		l.of[key] = map[*waiter]struct{}{}
	}
	l.of[key][me] = struct{}{}
	select {
	case l.arrived <- struct{}{}:
	default:
	}
	return me
}

// leave ends a wait that ends for another reason than wakeFirst. A call of that which
// came meanwhile goes to the next.
func (l *waitlist) leave(me *waiter) {
	l.mu.Lock()
	waits := me.place != nil
	if waits {
		l.drop(me)
	}
	l.mu.Unlock()
	if !waits {
		l.wakeFirst(1)
	}
}

// drop takes one out of the line.
func (l *waitlist) drop(me *waiter) {
	l.line.Remove(me.place)
	me.place = nil
	delete(l.of[me.key], me)
	if len(l.of[me.key]) == 0 {
		delete(l.of, me.key)
	}
}

// wakeFirst wakes the n that have waited longest and takes them out of the line: so many
// jobs have come.
func (l *waitlist) wakeFirst(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; n > 0; n-- {
		first := l.line.Front()
		if first == nil {
			l.missed++
			return
		}
		me := first.Value.(*waiter)
		l.drop(me)
		me.woken <- struct{}{}
	}
}

// wakeAll wakes all with that key, who stay in the line.
func (l *waitlist) wakeAll(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for me := range l.of[key] {
		select {
		case me.woken <- struct{}{}:
		default:
		}
	}
}

func (l *waitlist) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.line.Len()
}

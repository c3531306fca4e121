package control

import (
	"container/list"
	"sync"

	"github.com/batchfleet/batchfleet/jobs"
)

// waitlist holds requests that wait, the longest first: for a job of some kinds, by their
// worker, or for their job to be canceled, by that. Its methods may be called concurrently.
type waitlist struct {
	mu      sync.Mutex
	lines   map[jobs.Kind]*list.List // of *waiter: a line for each kind that somebody waits for
	waiting int
	most    int
	share   int                             // of them, how many may have one key
	of      map[string]map[*waiter]struct{} // those that wait, by key
	missed  uint64                          // counts calls of wake while none waited
	arrived chan struct{}                   // holds one when somebody has begun to wait
}

// waiter is one of them.
type waiter struct {
	woken  chan struct{} // holds one when it was woken
	by     jobs.Kind     // of the job for which wake has woken it
	key    string
	places map[jobs.Kind]*list.Element // in the lines; nil once it is out of them
}

func (l *waitlist) init(most, share int) {
	l.most, l.share, l.of, l.arrived = most, share, map[string]map[*waiter]struct{}{}, make(chan struct{}, 1)
	l.lines = map[jobs.Kind]*list.List{}
}

// seen is called before one looks for a job, and its value handed to join: a job that
// comes in between is not missed.
func (l *waitlist) seen() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missed
}

// join begins to wait for jobs of the kinds, of zpe if there are none; one that has missed a
// job since seen is woken at once. It returns nil when too many wait already, of all or with
// this key: one that waits with many requests must not keep others from waiting.
func (l *waitlist) join(seen uint64, key string, kinds ...jobs.Kind) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	me := &waiter{woken: make(chan struct{}, 1), key: key}
	if len(kinds) == 0 {
		kinds = []jobs.Kind{""}
	}
	if l.missed != seen {
		me.by = kinds[0]
		me.woken <- struct{}{}
		return me
	}
	if l.waiting >= l.most || len(l.of[key]) >= l.share {
		return nil
	}
	me.places = make(map[jobs.Kind]*list.Element, len(kinds))
	for _, kind := range kinds {
		if l.lines[kind] == nil {
			l.lines[kind] = list.New()
		}
		me.places[kind] = l.lines[kind].PushBack(me)
	}
	l.waiting++
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

// leave ends a wait that ends for another reason than wake. A call of that which came
// meanwhile goes to the next.
func (l *waitlist) leave(me *waiter) {
	l.mu.Lock()
	waits := me.places != nil
	if waits {
		l.drop(me)
	}
	l.mu.Unlock()
	if !waits {
		l.wake(me.by, 1)
	}
}

// drop takes one out of the lines.
func (l *waitlist) drop(me *waiter) {
	for kind, place := range me.places {
		if l.lines[kind].Remove(place); l.lines[kind].Len() == 0 {
			delete(l.lines, kind)
		}
	}
	me.places = nil
	l.waiting--
	delete(l.of[me.key], me)
	if len(l.of[me.key]) == 0 {
		delete(l.of, me.key)
	}
}

// wakeFirst is wake for jobs of kind zpe.
func (l *waitlist) wakeFirst(n int) { l.wake("", n) }

// wake wakes the n that have waited longest for jobs of a kind and takes them out of the
// lines: so many jobs have come.
func (l *waitlist) wake(kind jobs.Kind, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; n > 0; n-- {
		line := l.lines[kind]
		if line == nil {
			l.missed++
			return
		}
		me := line.Front().Value.(*waiter)
		l.drop(me)
		me.by = kind
		me.woken <- struct{}{}
	}
}

// pass wakes one that waits in both lines, if there is any: another was woken, and could not run the job.
func (l *waitlist) pass(kind, also jobs.Kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[kind]
	if line == nil {
		return
	}
	for place := line.Front(); place != nil; place = place.Next() {
		if me := place.Value.(*waiter); me.places[also] != nil {
			l.drop(me)
			me.by = kind
			me.woken <- struct{}{}
			return
		}
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
	return l.waiting
}

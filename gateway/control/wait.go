package control

import (
	"cmp"
	"container/list"
	"context"
	"sync"
	"time"
)

// waiters are the requests that wait for a job, the longest first. A job that
// comes wakes one of them and no more.
type waiters struct {
	mu      sync.Mutex
	line    list.List // of *waiter
	most    int
	share   int            // of them, how many may be one worker's
	of      map[string]int // how many are, by worker
	missed  uint64         // counts jobs that came while nobody waited
	arrived chan struct{}  // holds one when somebody has begun to wait
}

// waiter is one of them. Its turn comes at most once.
type waiter struct {
	turn   chan struct{}
	worker string
	place  *list.Element // nil once it is out of the line
}

func (ws *waiters) init(most, share int) {
	ws.most, ws.share, ws.of, ws.arrived = most, share, map[string]int{}, make(chan struct{}, 1)
}

// seen is to be called before one looks for a job, and its value handed to join:
// a job that comes in between is not missed.
func (ws *waiters) seen() uint64 {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.missed
}

// join begins to wait, or returns false when too many do already, of all workers or
// of this one: one that waits with many requests must not keep others from waiting.
func (ws *waiters) join(seen uint64, worker string) (*waiter, bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	me := &waiter{turn: make(chan struct{}, 1), worker: worker}
	if ws.missed != seen {
		me.turn <- struct{}{}
		return me, true
	}
	if ws.line.Len() >= ws.most || ws.of[worker] >= ws.share {
		return nil, false
	}
	me.place = ws.line.PushBack(me)
	ws.of[worker]++
	select {
	case ws.arrived <- struct{}{}:
	default:
	}
	return me, true
}

// leave ends the wait of one that goes for another reason. A turn that came
// meanwhile is passed on.
func (ws *waiters) leave(me *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if me.place != nil {
		ws.drop(me)
		return
	}
	ws.wakeLocked(1)
}

// drop takes one out of the line.
func (ws *waiters) drop(me *waiter) {
	ws.line.Remove(me.place)
	me.place = nil
	if ws.of[me.worker]--; ws.of[me.worker] == 0 {
		delete(ws.of, me.worker)
	}
}

// wake tells that n jobs have come.
func (ws *waiters) wake(n int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.wakeLocked(n)
}

func (ws *waiters) wakeLocked(n int) {
	for ; n > 0; n-- {
		first := ws.line.Front()
		if first == nil {
			ws.missed++
			return
		}
		me := first.Value.(*waiter)
		ws.drop(me)
		me.turn <- struct{}{}
	}
}

func (ws *waiters) len() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.line.Len()
}

// watch wakes as many as there are jobs, as long as somebody waits: other
// gateways take jobs in, too, and delayed jobs come due. It returns when ctx
// ends.
func (c *Control) watch(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(c.Watch, time.Second))
	defer tick.Stop()
	well := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.waiting.arrived:
		}
		for c.waiting.len() > 0 {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			n, err := c.runnable(ctx)
			if err != nil && well && ctx.Err() == nil {
				c.Log.WarnContext(ctx, "cannot look for jobs", "err", err)
			}
			well = err == nil
			c.waiting.wake(min(n, c.waiting.len()))
		}
	}
}

func (c *Control) runnable(ctx context.Context) (int, error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	return c.Queue.Runnable(ctx)
}

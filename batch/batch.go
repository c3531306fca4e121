// Package batch sends together what several goroutines want to send at the same time.
//
// Without Gather a [Group] never waits for company: a value that finds no call under way is sent at
// once, with those that goroutines ready to run have to send. What comes while the allowed
// calls are under way goes with the next one. So a lone value is as fast as without a Group,
// and many share round trips just when the other end, or a processor, is what they wait for.
package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Answer is what came of one value.
type Answer[A any] struct {
	Value A
	Err   error
}

// Group sends values of type V and returns an answer of type A to each. Set the fields before
// the first call of Do. Do may be called concurrently.
type Group[V, A any] struct {
	// Send sends values, in the order in which they came, and returns as many answers, in that
	// order. ctx ends when no caller waits any longer. It has the latest of their deadlines if
	// all have one, and the context values of the first caller. Send must return in bounded time.
	Send func(ctx context.Context, values []V) []Answer[A]
	Max  int // values a call; more go with the next one. 0 is no limit
	// Calls is how many calls may be under way at once; 0 is 1.
	Calls int
	// Slow is after what time a call no longer counts as one of Calls, so that values wait no
	// longer for one that hangs; 0 is never.
	Slow time.Duration
	// Gather is how long a call waits for more values when fewer wait than the one before it had: those who were
	// answered together come again at about the same time. One who is alone again and again never waits.
	Gather time.Duration

	mu      sync.Mutex
	waiting []*entry[V, A]
	calls   int
	last    int // values of the last call
}

// entry is one value on its way.
type entry[V, A any] struct {
	ctx    context.Context // of the caller who waits for the answer
	value  V
	answer chan Answer[A] // takes one without blocking
	call   *call          // nil while it waits
}

// call is one call of Send. The mutex of its group guards it.
type call struct {
	cancel  context.CancelFunc // ends it; set before left can be 0
	callers int                // who wait for an answer
	slow    bool               // it no longer counts as one of Calls
}

// ErrNotSent is the error of a value that [Until] has kept from being sent.
var ErrNotSent = errors.New("not sent: it is no longer of use")

type untilKey struct{}

// Until returns a context for Do: a value whose turn has not come when done is closed is not sent, and
// its error is [ErrNotSent]. One that is under way then is answered as always.
func Until(ctx context.Context, done <-chan struct{}) context.Context {
	return context.WithValue(ctx, untilKey{}, done)
}

// Do sends v, perhaps with other values, and returns its answer. If ctx ends first it returns
// the cause; then v is not sent, or has been sent and its answer is lost.
func (g *Group[V, A]) Do(ctx context.Context, v V) (A, error) {
	e := &entry[V, A]{ctx: ctx, value: v, answer: make(chan Answer[A], 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, e)
	if g.calls < max(g.Calls, 1) {
		g.start() //nolint:contextcheck // a call is for several callers
	}
	g.mu.Unlock()
	done, _ := ctx.Value(untilKey{}).(<-chan struct{})
	for {
		var none A
		select {
		case a := <-e.answer:
			return a.Value, a.Err
		case <-done:
			if g.withdraw(e) {
				return none, ErrNotSent
			}
			done = nil
		case <-ctx.Done():
			g.leave(e)
			return none, context.Cause(ctx)
		}
	}
}

// withdraw takes back a value that waits, and reports whether it did.
func (g *Group[V, A]) withdraw(e *entry[V, A]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, e)
	if i < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return true
}

// start begins a call, and others after it while values wait.
func (g *Group[V, A]) start() {
	g.calls++
	go func() {
		for {
			// An answer to several callers makes them ready to run at the same time, and each
			// may have a next value: without this the first of them would be sent alone.
			runtime.Gosched()
			g.gather()
			ctx, c, together := g.next()
			if len(together) == 0 || !g.send(ctx, c, together) {
				return
			}
		}
	}()
}

// leave ends the call of a caller who has gone, if it was the last.
func (g *Group[V, A]) leave(e *entry[V, A]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.call == nil {
		return
	}
	if e.call.callers--; e.call.callers == 0 {
		e.call.cancel()
	}
}

// gather waits while more values are likely to come.
func (g *Group[V, A]) gather() {
	g.mu.Lock()
	more := g.Gather > 0 && len(g.waiting) > 0 && len(g.waiting) < g.last
	g.mu.Unlock()
	if more {
		time.Sleep(g.Gather)
	}
}

// next takes the values of the next call. If there are none, there are no more calls.
func (g *Group[V, A]) next() (context.Context, *call, []*entry[V, A]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &call{}
	var together []*entry[V, A]
	for len(g.waiting) > 0 && (g.Max == 0 || len(together) < g.Max) {
		e := g.waiting[0]
		g.waiting[0] = nil
		g.waiting = g.waiting[1:]
		if e.ctx.Err() == nil { // otherwise its caller has gone
			e.call = c
			together = append(together, e)
		}
	}
	if len(together) == 0 {
		g.calls--
		return nil, nil, nil
	}
	g.last = len(together)
	ctx := context.WithoutCancel(together[0].ctx)
	if end, ok := latest(together); ok {
		ctx, c.cancel = context.WithDeadline(ctx, end)
	} else {
		ctx, c.cancel = context.WithCancel(ctx)
	}
	c.callers = len(together)
	return ctx, c, together
}

// latest returns the last of the deadlines of callers, and false if one has none.
func latest[V, A any](together []*entry[V, A]) (end time.Time, ok bool) {
	for _, e := range together {
		d, ok := e.ctx.Deadline()
		if !ok {
			return time.Time{}, false
		}
		if d.After(end) {
			end = d
		}
	}
	return end, true
}

// send makes a call and hands out the answers. It reports whether the caller is to make the next
// call: after a slow one it is under way already.
func (g *Group[V, A]) send(ctx context.Context, c *call, together []*entry[V, A]) bool {
	defer c.cancel()
	if g.Slow > 0 {
		slow := time.AfterFunc(g.Slow, func() { g.isSlow(c) })
		defer slow.Stop()
	}
	values := make([]V, len(together))
	for i, e := range together {
		values[i] = e.value
	}
	answers := g.Send(ctx, values)
	for i, e := range together {
		if i < len(answers) {
			e.answer <- answers[i]
		} else {
			e.answer <- Answer[A]{Err: fmt.Errorf("%d values were sent together, and %d answered", len(values), len(answers))}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.slow {
		return false
	}
	c.slow = true // the timer comes too late now
	return true
}

// isSlow lets the next call begin beside one that hangs.
func (g *Group[V, A]) isSlow(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.slow {
		return
	}
	c.slow = true
	g.calls--
	if len(g.waiting) > 0 {
		g.start()
	}
}

// Package batch sends together what several goroutines want to send at the same time.
//
// A [Group] never waits for company: a value that finds no call under way is sent at
// once, by itself. What comes while the allowed calls are under way goes with the next
// one. So a lone value is as fast as without a Group, and many share round trips just
// when the other end is what they wait for.
package batch

import (
	"context"
	"fmt"
	"sync"
)

// Answer is what came of one value.
type Answer[A any] struct {
	Value A
	Err   error
}

// Group sends values of type V, each of which is answered by an A. Set the fields before
// the first call of Do, which may be called concurrently.
type Group[V, A any] struct {
	// Send sends values, in the order in which they came, and returns as many answers, in that
	// order. ctx ends when no caller waits any longer, and has the values of the
	// first caller's. It must end in bounded time.
	Send func(ctx context.Context, values []V) []Answer[A]
	Max  int // values a call; more go with the next one. 0 is no limit
	// Calls is how many calls may be under way at once; 0 is 1.
	Calls int

	mu      sync.Mutex
	waiting []*entry[V, A]
	calls   int
}

// entry is one value on its way.
type entry[V, A any] struct {
	ctx    context.Context // of the caller who waits for the answer
	value  V
	answer chan Answer[A] // takes one without blocking
}

// Do sends v, perhaps with other values, and returns its answer. If ctx ends first it returns
// the cause; then v is not sent, or has been sent and its answer is lost.
func (g *Group[V, A]) Do(ctx context.Context, v V) (A, error) {
	e := &entry[V, A]{ctx: ctx, value: v, answer: make(chan Answer[A], 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, e)
	if g.calls < max(g.Calls, 1) {
		g.calls++
		go g.run()
	}
	g.mu.Unlock()
	select {
	case a := <-e.answer:
		return a.Value, a.Err
	case <-ctx.Done():
		var none A
		return none, context.Cause(ctx)
	}
}

// run makes calls until nothing waits.
func (g *Group[V, A]) run() {
	for {
		together := g.next()
		if len(together) == 0 {
			return
		}
		g.call(together)
	}
}

// next takes the values of the next call. If there are none, this run is over.
func (g *Group[V, A]) next() []*entry[V, A] {
	g.mu.Lock()
	defer g.mu.Unlock()
	var together []*entry[V, A]
	for len(g.waiting) > 0 && (g.Max == 0 || len(together) < g.Max) {
		e := g.waiting[0]
		g.waiting[0] = nil
		g.waiting = g.waiting[1:]
		if e.ctx.Err() == nil { // its caller has gone
			together = append(together, e)
		}
	}
	if len(together) == 0 {
		g.calls--
	}
	return together
}

// call sends values and hands out their answers.
func (g *Group[V, A]) call(together []*entry[V, A]) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(together[0].ctx))
	defer cancel()
	var mu sync.Mutex
	left := len(together)
	for _, e := range together {
		stop := context.AfterFunc(e.ctx, func() {
			mu.Lock()
			defer mu.Unlock()
			if left--; left == 0 {
				cancel()
			}
		})
		defer stop()
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
}

package control

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/batchfleet/batchfleet/gateway"
)

// largeBodies is how many larger bodies are in hand at once, since one takes a few
// times its size until it is stored, and largeOfOne how many of them may be one
// worker's: a stolen token that sends slowly must not keep out all others.
const (
	largeBodies = 16
	largeOfOne  = 4
)

// large is the room for large bodies.
type large struct {
	room chan struct{} // holds one for each that is in hand

	mu sync.Mutex
	of map[string]int // by worker, those in hand and those that wait for room
}

func newLarge() *large {
	return &large{room: make(chan struct{}, largeBodies), of: map[string]int{}}
}

// take waits until there is room for one more large body of worker, but no longer
// than ctx, and turns one away that has enough of them already.
func (l *large) take(ctx context.Context, worker string) (release func(), err error) {
	if !l.count(worker) {
		return func() {}, noRoom("worker", largeOfOne)
	}
	select {
	case l.room <- struct{}{}:
		return func() { <-l.room; l.discount(worker) }, nil
	case <-ctx.Done():
		l.discount(worker)
		return func() {}, noRoom("gateway", largeBodies)
	}
}

func noRoom(whose string, bodies int) error {
	return &gateway.Error{
		Status: http.StatusServiceUnavailable, Code: gateway.Unavailable, RetryAfter: retryAfter,
		Message: fmt.Sprintf("The %s has %d large bodies on their way already; try again later", whose, bodies),
	}
}

func (l *large) count(worker string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[worker] >= largeOfOne {
		return false
	}
	l.of[worker]++
	return true
}

func (l *large) discount(worker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[worker]--; l.of[worker] == 0 {
		delete(l.of, worker)
	}
}

package control

import (
	"context"
	"net/http"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

// A large body takes largeCost times its size in memory until it is stored: as it came,
// as the part that is kept, and as what is sent to Redis. All large bodies together may
// take largeRoom bytes. Those of one worker may take half of that, and be largeOfOne at
// most: a stolen token that sends slowly must not keep out the others.
const (
	largeCost   = 3
	largeRoom   = 2 * largeCost * wire.MaxResultBody
	largeBodies = 16
	largeOfOne  = 4
)

// large is the room for large bodies.
type large struct {
	room *semaphore.Weighted // bytes of memory, in the order in which they were asked for

	mu sync.Mutex
	of map[string]share // by worker, of those in hand and those that wait for room
}

// share is what one worker takes of the room.
type share struct {
	bodies int
	weight int64
}

func newLarge() *large {
	return &large{room: semaphore.NewWeighted(largeRoom), of: map[string]share{}}
}

// take waits until there is room for one more large body of worker, of so many
// bytes, but no longer than ctx, and turns one away that has enough of them already.
func (l *large) take(ctx context.Context, worker string, size int64) (release func(), err error) {
	weight := max(largeCost*size, largeRoom/largeBodies)
	if !l.add(worker, share{1, weight}) {
		return func() {}, noRoom("worker")
	}
	if l.room.Acquire(ctx, weight) != nil {
		l.add(worker, share{-1, -weight})
		return func() {}, noRoom("gateway")
	}
	return func() {
		if weight > largeRoom/largeBodies {
			// The next body must find the room, not the garbage that this one leaves:
			// the collector would let that grow to as much again as is in use.
			runtime.GC()
		}
		l.room.Release(weight)
		l.add(worker, share{-1, -weight})
	}, nil
}

func noRoom(whose string) error {
	return &gateway.Error{
		Status: http.StatusServiceUnavailable, Code: wire.Unavailable, RetryAfter: retryAfter,
		Message: "The " + whose + " has as many large bodies on their way as it may have; try again later",
	}
}

// add adds to what a worker takes, and reports false when that would be too much.
func (l *large) add(worker string, s share) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.of[worker]
	now.bodies += s.bodies
	now.weight += s.weight
	switch {
	case s.bodies > 0 && (now.bodies > largeOfOne || now.weight > largeRoom/2):
		return false
	case now.bodies == 0:
		delete(l.of, worker)
	default:
		l.of[worker] = now
	}
	return true
}

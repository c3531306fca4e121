package control

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

// TestZ50OneWorkersLargeBodiesLeaveRoomForOthers takes all the room that one
// worker gets, as the holder of a stolen token would who sends them slowly.
func TestZ50OneWorkersLargeBodiesLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	l := newLarge()
	var taken []func()
	take := func(worker string) error {
		release, err := l.take(t.Context(), worker, 1<<20)
		if err == nil {
			taken = append(taken, release)
		}
		return err
	}
	for range largeOfOne {
		if err := take("thief"); err != nil {
			t.Fatal(err)
		}
	}
	e := (*gateway.Error)(nil)
	if err := take("thief"); !errors.As(err, &e) || e.Status != 503 || e.RetryAfter == 0 {
		t.Errorf("one too many of a worker: %v, want 503 and when to come again", err)
	}
	for i := range largeBodies - largeOfOne {
		if err := take(string(rune('a' + i))); err != nil {
			t.Fatalf("another worker's: %v", err)
		}
	}
	// There is no room for anybody now, but there will be.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.take(gone, "late", 1); !errors.As(err, &e) || e.Status != 503 || e.RetryAfter == 0 || !strings.Contains(e.Message, "The gateway has as many large bodies") {
		t.Errorf("without room: %v, want 503 and when to come again", err)
	}
	for _, release := range taken {
		release()
	}
	if !l.room.TryAcquire(largeRoom) || len(l.of) != 0 {
		t.Errorf("after all is released, not all room is free; %v is left", l.of)
	}
	l.room.Release(largeRoom)
	if err := take("thief"); err != nil {
		t.Errorf("after all is released: %v", err)
	}
}

// TestZ50LargestBodiesTakeTheRoomOfMany has one worker take its share with a single
// body, and two workers all there is.
func TestZ50LargestBodiesTakeTheRoomOfMany(t *testing.T) {
	t.Parallel()
	l := newLarge()
	if _, err := l.take(t.Context(), "a", wire.MaxResultBody); err != nil {
		t.Fatalf("the largest body there may be: %v", err)
	}
	if _, err := l.take(t.Context(), "a", 1); err == nil {
		t.Error("a worker has more than half of the room")
	}
	release, err := l.take(t.Context(), "b", wire.MaxResultBody)
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.take(gone, "c", 1); err == nil {
		t.Error("there is room beside the two largest bodies")
	}
	release()
	if _, err := l.take(t.Context(), "c", wire.MaxResultBody); err != nil {
		t.Errorf("after one was released: %v", err)
	}
}

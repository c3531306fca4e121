package control

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/gateway"
)

// TestZ50OneWorkersLargeBodiesLeaveRoomForOthers takes all the room that one
// worker gets, as the holder of a stolen token would who sends them slowly.
func TestZ50OneWorkersLargeBodiesLeaveRoomForOthers(t *testing.T) {
	l := newLarge()
	var taken []func()
	take := func(worker string) error {
		release, err := l.take(t.Context(), worker)
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
	if _, err := l.take(gone, "late"); !errors.As(err, &e) || e.Status != 503 || e.RetryAfter == 0 || !strings.Contains(e.Message, "The gateway has 16 large bodies") {
		t.Errorf("without room: %v, want 503 and when to come again", err)
	}
	for _, release := range taken {
		release()
	}
	if len(l.room) != 0 || len(l.of) != 0 {
		t.Errorf("after all is released %d places and %v are left", len(l.room), l.of)
	}
	if err := take("thief"); err != nil {
		t.Errorf("after all is released: %v", err)
	}
}

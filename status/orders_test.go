package status_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

func TestD06PausedKindsAreBounded(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		for i := range 999 {
			rdb.HSet(t.Context(), "{fleet}:paused", fmt.Sprintf("k%d", i), 1)
		}
		for range 2 { // paused already
			if err := s.Pause(t.Context(), "pdf"); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Pause(t.Context(), "mock"); !errors.Is(err, status.ErrManyPaused) {
			t.Errorf("one too many: %v", err)
		}
		member := s.Member(status.Worker{})
		if err := member.Pulse(t.Context(), 0, false, ""); err != nil {
			t.Fatal(err)
		}
		if drain, paused := member.Orders(); drain || len(paused) != 1000 {
			t.Errorf("told to drain: %v, paused %d kinds; want no and 1000", drain, len(paused))
		}
		if was, err := s.Resume(t.Context(), "pdf"); err != nil || !was {
			t.Errorf("resume: %v, %v", was, err)
		}
		if was, err := s.Resume(t.Context(), "pdf"); err != nil || was {
			t.Errorf("resume again: %v, %v", was, err)
		}
	})
}

func TestD05WorkerTellsItsGPUsAndItsClock(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		member := s.Member(status.Worker{GPUs: []int{0, 3}})
		for range 2 {
			if err := member.Pulse(t.Context(), 0, false, ""); err != nil {
				t.Fatal(err)
			}
		}
		all, err := s.Workers(t.Context())
		if err != nil || len(all) != 1 || len(all[0].GPUs) != 2 || all[0].ClockOffset == nil || *all[0].ClockOffset != 0 {
			t.Errorf("%+v, %v; want two GPUs and a clock that is right", all, err)
		}
	})
}

func TestD05OrdersOfForgottenWorkersAreDropped(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		old := fmt.Sprintf("%d {}", time.Now().Add(-2*time.Hour).UnixMilli())
		rdb.HSet(t.Context(), "{fleet}:workers", "old", old, "lives", fmt.Sprintf("%d {}", time.Now().UnixMilli()))
		for _, id := range []string{"old", "lives"} {
			if err := s.DrainWorker(t.Context(), id, true); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Member(status.Worker{Kinds: []jobs.Kind{"pdf"}}).Pulse(t.Context(), 0, false, ""); err != nil {
			t.Fatal(err)
		}
		if ids := rdb.HKeys(t.Context(), "{fleet}:drained").Val(); len(ids) != 1 || ids[0] != "lives" {
			t.Errorf("orders are kept for %v", ids)
		}
	})
}

package status_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// claimLease is claim for a lease that others can hand back.
func claimLease(t *testing.T, s *status.Store, id jobs.ID, hold time.Duration, ack string) jobs.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), jobs.Job{ID: id, Kind: "mock"}, hold, jobs.Claim{Queue: "q", Ack: ack})
	if err != nil || c.Verdict != jobs.Granted {
		t.Fatalf("claim of %s: %+v, %v", id, c, err)
	}
	return c
}

// wantLapsed waits until the claims with these acks have lapsed.
func wantLapsed(t *testing.T, s *status.Store, acks ...string) (lapsed []jobs.Claim, next time.Duration) {
	t.Helper()
	waitUntil(t, func() bool {
		var err error
		if lapsed, next, err = s.Lapsed(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, c := range lapsed {
			got[c.Ack] = c.Queue == "q"
		}
		for _, ack := range acks {
			if !got[ack] {
				return false
			}
		}
		return len(lapsed) == len(acks)
	})
	return lapsed, next
}

func lapse(t *testing.T, s *status.Store, c jobs.Claim, handed, want bool) {
	t.Helper()
	if taken, err := s.Lapse(t.Context(), c, handed); err != nil || taken != want {
		t.Errorf("lapse of job %s is %v, %v; want %v", c.Job, taken, err, want)
	}
}

func TestF22LapsedClaimIsTakenFromItsWorkerAndFreeAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		dead := newStore(rdb, "dead")
		c := claimLease(t, dead, "a", time.Millisecond, "ack1")
		claimLease(t, dead, "living", time.Minute, "ack2")
		claim(t, dead, "other source", time.Millisecond, jobs.Granted)
		back := claimLease(t, dead, "back", time.Minute, "ack3")
		if err := dead.Release(t.Context(), back, "again"); err != nil {
			t.Fatal(err)
		}
		lapsed, next := wantLapsed(t, s, "ack1")
		if next <= 0 || next > time.Minute {
			t.Errorf("the next claim ends in %s, want a minute at most", next)
		}
		lapse(t, s, lapsed[0], false, true)
		wantLapsed(t, s, "ack1") // until its lease is handed back
		lapse(t, s, lapsed[0], true, true)
		wantLapsed(t, s)

		// Its worker wakes up.
		if err := dead.Report(t.Context(), c, time.Minute, nil, jobs.Lines{}); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("report: %v, want ErrLeaseLost", err)
		}
		if _, err := dead.Finish(t.Context(), c, jobs.Outcome{State: jobs.Succeeded}); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("finish: %v, want ErrLeaseLost", err)
		}
		if next := claimLease(t, s, "a", time.Minute, "ack4"); next.Attempt != 2 || next.Crashes != 1 {
			t.Errorf("attempt %d with %d crashes, want 2 with 1", next.Attempt, next.Crashes)
		}
		lapse(t, s, c, false, false) // of a looker that stood still
		lapse(t, s, c, true, false)
		if ack := rdb.HGet(t.Context(), "{job:a}:claim", "ack").Val(); ack != "ack4" {
			t.Errorf("the claim has ack %q, want that of its own lease", ack)
		}
	})
}

func TestF22ClaimThatWasProlongedInTimeStays(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		c := claimLease(t, s, "a", time.Millisecond, "ack1")
		lapsed, _ := wantLapsed(t, s, "ack1")
		report(t, s, c, time.Minute, nil, jobs.Lines{})
		lapse(t, s, lapsed[0], false, false)
		if err := s.Report(t.Context(), c, time.Minute, nil, jobs.Lines{}); err != nil {
			t.Error(err)
		}
		// A claim that Redis has lost comes back with its lease.
		rdb.FlushDB(t.Context())
		report(t, s, c, time.Millisecond, &jobs.Progress{}, jobs.Lines{Text: []string{"a line"}})
		wantLapsed(t, s, "ack1")
	})
}

func TestF22OneWorkerLooksAtATime(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, a *status.Store, rdb *redis.Client) {
		b := newStore(rdb, "b")
		watch := func(s *status.Store, ttl time.Duration, want bool) {
			t.Helper()
			mine, clock, free, err := s.Watch(t.Context(), ttl)
			if err != nil || free < 0 || free > time.Hour || mine && free > 0 || mine != want || time.Since(clock).Abs() > time.Minute {
				t.Fatalf("watch by %s: %v, %s, %v; want %v", s.Worker, mine, clock, err, want)
			}
		}
		watch(a, time.Hour, true)
		watch(b, time.Millisecond, false)
		watch(a, time.Millisecond, true)
		waitUntil(t, func() bool { mine, _, _, err := b.Watch(t.Context(), time.Hour); return err == nil && mine })
		watch(a, time.Hour, false)
		watch(b, 0, false) // leaves it
		watch(a, time.Hour, true)
	})
}

package status_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// TestF25OneLooksAtATimeAndAfterALoss: a look is one caller's, and comes before its
// time when Redis was restarted, until somebody has looked for what was lost then.
func TestF25OneLooksAtATimeAndAfterALoss(t *testing.T) {
	srv := redistest.New(t)
	s := status.New(srv.Client())
	look := func(settle time.Duration) (bool, time.Time) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
			mine, lost, err := s.Look(t.Context(), time.Hour, settle)
			if err == nil {
				return mine, lost
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	done := func(lost time.Time) {
		t.Helper()
		if err := s.LookDone(t.Context(), time.Hour, lost); err != nil {
			t.Fatal(err)
		}
	}
	mine, first := look(0)
	if !mine || first.IsZero() {
		t.Fatalf("the first look is due: %v, lost %v", mine, first)
	}
	if mine, _ := look(0); mine {
		t.Error("two look at once")
	}
	done(first)
	if mine, lost := look(0); mine || !lost.IsZero() {
		t.Errorf("after a look: mine %v, lost %v", mine, lost)
	}
	srv.Kill()
	srv.Start()
	if mine, lost := look(time.Hour); mine || lost.IsZero() {
		t.Errorf("right after a restart the living write first: mine %v, lost %v", mine, lost)
	}
	srv.Kill()
	srv.Start()
	mine, lost := look(0)
	if !mine || !lost.After(first) {
		t.Errorf("after a restart: mine %v, lost %v", mine, lost)
	}
	done(time.Time{}) // it did not get through
	done(first)       // one that began before the loss
	if _, again := look(0); !again.Equal(lost) {
		t.Errorf("a loss that nobody has looked for is %v, want %v", again, lost)
	}
	done(lost)
	if _, again := look(0); !again.IsZero() {
		t.Errorf("a loss that was looked for is %v still", again)
	}
}

func TestF25StraysAreWhatNobodyRuns(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		s := newStore(rdb, "w1")
		for _, id := range []jobs.ID{"waits", "runs", "ended", "silent"} {
			submit(t, s, jobs.Job{ID: id, Kind: "mock"})
		}
		claim(t, s, "runs", time.Minute, jobs.Granted)
		claim(t, s, "silent", time.Millisecond, jobs.Granted)
		finish(t, s, claim(t, s, "ended", time.Minute, jobs.Granted), jobs.Outcome{State: jobs.Failed, Reason: "r"})
		rdb.Set(t.Context(), "job:page", `{"status":"queued","updated_at":"2026-01-02T03:04:05Z"}`, 0)
		rdb.Set(t.Context(), "job:junk", "junk", 0)
		if err := s.MarkSent(t.Context(), "waits"); err != nil {
			t.Fatal(err)
		}
		strays := func(all bool) (ids []string) {
			t.Helper()
			err := s.Strays(t.Context(), all, func(x status.Stray) error {
				ids = append(ids, string(x.ID))
				if x.ID == "waits" && (x.Detail.Resent != 1 || x.Detail.Sent.IsZero() || x.Job().Kind != "mock") {
					t.Errorf("%+v does not say that it was sent again", x)
				}
				if x.ID == "page" && x.Since.Unix() != 1767323045 {
					t.Errorf("page has shown life at %v", x.Since)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(ids)
			return slices.Compact(ids)
		}
		waitUntil(t, func() bool { return slices.Equal(strays(false), []string{"silent", "waits"}) })
		if got := strays(true); !slices.Equal(got, []string{"page", "silent", "waits"}) {
			t.Errorf("strays, with those in no index: %v", got)
		}
	})
}

package status_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// end claims job a and records how it ended.
func end(t *testing.T, s *status.Store, o jobs.Outcome) {
	t.Helper()
	c := claim(t, s, "a", time.Minute, jobs.Granted)
	if got, err := s.Finish(t.Context(), c, o); err != nil || got != o.State {
		t.Fatalf("finish: %v, %v", got, err)
	}
}

func requeue(t *testing.T, s *status.Store, want jobs.State) {
	t.Helper()
	if got, err := s.Requeue(t.Context(), jobs.Job{ID: "a", Kind: "mock"}); err != nil || got != want {
		t.Fatalf("requeue found %v, %v; want %v", got, err, want)
	}
}

func TestF13RequeuedJobStartsAnew(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		s.MaxCrashes = 2
		for range 2 { // crashes
			claim(t, s, "a", time.Minute, jobs.Granted)
			rdb.HSet(t.Context(), "{job:a}:claim", "until", 0) // it falls silent
		}
		c := claim(t, s, "a", time.Minute, jobs.CrashLoop)
		finish(t, s, c, jobs.Outcome{State: jobs.Failed, Reason: "worker crashed 2 times"})
		age(t, rdb)
		requeue(t, s, jobs.Failed)
		wantDocument(t, rdb, "a", "queued", 0, "Waiting for a worker...", "", "")
		e, err := s.Get(t.Context(), "a")
		if err != nil || e.Detail.Attempt != 0 || e.Detail.Crashes != 0 || !e.Detail.Finished.IsZero() || e.Detail.Kind != "mock" {
			t.Errorf("detail %+v, %v; want that of a job just submitted", e.Detail, err)
		}
		again := claim(t, s, "a", time.Minute, jobs.Granted)
		if again.Attempt != 1 || again.Crashes != 0 {
			t.Errorf("attempt %d after %d crashes, want the first after none", again.Attempt, again.Crashes)
		}
		finish(t, s, again, jobs.Outcome{State: jobs.Succeeded})
		if n := rdb.HGet(t.Context(), "{job:a}:detail", "outcomes").Val(); n != "1" {
			t.Errorf("%s outcomes on record, want 1", n)
		}
		lines, err := s.Lines(t.Context(), "a", status.LogQuery{Tail: 100})
		if err != nil || len(lines) < 6 || !strings.Contains(lines[0].Text, "attempt 1 started") {
			t.Errorf("log %v, %v; want it to go on from before", lines, err)
		}
	})
}

func TestF13OnlyFailedAndUnknownJobsAreRequeued(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		setup func(*testing.T, *status.Store, *redis.Client)
		want  jobs.State
	}{
		{"unknown", func(*testing.T, *status.Store, *redis.Client) {}, 0},
		{"failed", func(t *testing.T, s *status.Store, _ *redis.Client) {
			end(t, s, jobs.Outcome{State: jobs.Failed, Reason: "broken"})
		}, jobs.Failed},
		{"not our text", func(t *testing.T, _ *status.Store, rdb *redis.Client) { rdb.Set(t.Context(), "job:a", "noise", 0) }, 0},
		{"a word we do not know", func(t *testing.T, _ *status.Store, rdb *redis.Client) {
			rdb.Set(t.Context(), "job:a", `{"status":"lost","progress":3}`, 0)
		}, 0},
		{"queued", func(t *testing.T, s *status.Store, _ *redis.Client) {
			submit(t, s, jobs.Job{ID: "a"})
		}, jobs.Queued},
		{"running", func(t *testing.T, s *status.Store, _ *redis.Client) { claim(t, s, "a", time.Minute, jobs.Granted) }, jobs.Running},
		{"running though its status is gone", func(t *testing.T, s *status.Store, rdb *redis.Client) {
			claim(t, s, "a", time.Minute, jobs.Granted)
			rdb.Del(t.Context(), "job:a")
		}, jobs.Running},
		{"succeeded", func(t *testing.T, s *status.Store, _ *redis.Client) {
			end(t, s, jobs.Outcome{State: jobs.Succeeded})
		}, jobs.Succeeded},
		{"canceled", func(t *testing.T, s *status.Store, _ *redis.Client) {
			end(t, s, jobs.Outcome{State: jobs.Canceled})
		}, jobs.Canceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
				tt.setup(t, s, rdb)
				before := rdb.Get(t.Context(), "job:a").Val()
				requeue(t, s, tt.want)
				if tt.want == 0 || tt.want == jobs.Failed {
					wantDocument(t, rdb, "a", "queued", 0, "Waiting for a worker...", "", "")
					claim(t, s, "a", time.Minute, jobs.Granted)
				} else if after := rdb.Get(t.Context(), "job:a").Val(); after != before {
					t.Errorf("the status became %s, want it left alone: %s", after, before)
				}
			})
		})
	}
}

func TestF13AttemptFromBeforeARequeueWritesNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		stale := claim(t, s, "a", time.Minute, jobs.Granted)
		rdb.HSet(t.Context(), "{job:a}:claim", "until", 0) // it falls silent
		end(t, s, jobs.Outcome{State: jobs.Failed, Reason: "broken"})
		requeue(t, s, jobs.Failed)
		if err := s.Report(t.Context(), stale, time.Minute, &jobs.Progress{Done: 1, Total: 2}, jobs.Lines{}); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("report: %v, want ErrLeaseLost", err)
		}
		if _, err := s.Finish(t.Context(), stale, jobs.Outcome{State: jobs.Succeeded}); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("finish: %v, want ErrLeaseLost", err)
		}
		if err := s.Release(t.Context(), stale, "x"); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("release: %v, want ErrLeaseLost", err)
		}
		wantDocument(t, rdb, "a", "queued", 0, "Waiting for a worker...", "", "")
	})
}

func TestF13ClaimOfAFailedJobSaysWhy(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		end(t, s, jobs.Outcome{State: jobs.Failed, Reason: "no page could be read"})
		c := claim(t, s, "a", time.Minute, jobs.Ended)
		if c.State != jobs.Failed || c.Reason != "no page could be read" || c.Attempt != 1 {
			t.Errorf("claim %+v, want the failure on record", c)
		}
	})
}

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

func retryLater(t *testing.T, s *status.Store, c jobs.Claim, reason string, after time.Duration) {
	t.Helper()
	o := jobs.Outcome{State: jobs.Failed, Reason: reason, Code: "EXIT_3", Retry: true, RetryAfter: after}
	if state, err := s.Retry(t.Context(), c, o); err != nil || state != jobs.Queued {
		t.Fatalf("retry: %v, %v; want queued", state, err)
	}
}

func TestK10WaitingJobIsShownAsQueuedWithWhyAndWhen(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		report(t, s, c, time.Minute, &jobs.Progress{Done: 1, Total: 2, Message: "half"}, jobs.Lines{})
		age(t, rdb)
		long := "exit 3: \x1b[31m" + strings.Repeat("é", 5000)
		retryLater(t, s, c, long, 10*time.Minute)
		e, err := s.Get(t.Context(), "a")
		if err != nil || len(e.Message) > 600 || !strings.HasPrefix(e.Message, `attempt 1 failed: exit 3: \x1b[31méé`) || !strings.HasSuffix(e.Message, "é …; next in 10 min") {
			t.Errorf("message %q, %v", e.Message, err)
		}
		wantDocument(t, rdb, "a", "queued", 50, e.Message, "", "")
		if left := time.Until(e.Detail.Next); left < 9*time.Minute || left > 10*time.Minute || e.Detail.Code != "EXIT_3" || e.Detail.Attempt != 1 {
			t.Errorf("detail %+v, want attempt 1, a code and the next in 10 min", e.Detail)
		}
		if found, _, err := s.List(t.Context(), status.Query{State: jobs.Queued, Limit: 10}); err != nil || len(found) != 1 {
			t.Errorf("%d jobs are listed as queued, %v; want 1", len(found), err)
		}
		if held, err := s.Held(t.Context()); err != nil || len(held) != 0 {
			t.Errorf("held: %v, %v; want none", held, err)
		}
		if lapsed, _, err := s.Lapsed(t.Context()); err != nil || len(lapsed) != 0 {
			t.Errorf("lapsed: %v, %v; want none", lapsed, err)
		}
		lines, err := s.Lines(t.Context(), "a", status.LogQuery{Tail: 1})
		if err != nil || len(lines) != 1 || !strings.HasPrefix(lines[0].Text, "attempt 1 failed: exit 3: ") || !strings.HasSuffix(lines[0].Text, "; next in 10 min") {
			t.Errorf("log %v, %v; want a line about the failure", lines, err)
		}
		if audit, err := s.Fsck(t.Context(), false); err != nil || len(audit.Findings) > 0 {
			t.Errorf("fsck finds %+v, %v; want nothing", audit.Findings, err)
		}
		rdb.HSet(t.Context(), "{job:a}:claim", "next", 1) // its time has come
		if again := claim(t, s, "a", time.Minute, jobs.Granted); again.Attempt != 2 || again.Failures != 1 {
			t.Errorf("claim %+v, want attempt 2 after a failure", again)
		}
		if e, err := s.Get(t.Context(), "a"); err != nil || !e.Detail.Next.IsZero() || e.Detail.Code != "" {
			t.Errorf("detail %+v, %v; want nothing of the failure", e.Detail, err)
		}
	})
}

func TestK10FailuresAreCountedThoughRedisHasLostTheClaim(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		for range 2 {
			retryLater(t, s, claim(t, s, "a", time.Minute, jobs.Granted), "exit 3", 0)
		}
		lost := func(t *testing.T) {
			t.Helper()
			if err := rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		third := claim(t, s, "a", time.Minute, jobs.Granted)
		lost(t)
		report(t, s, third, time.Minute, nil, jobs.Lines{})
		retryLater(t, s, third, "exit 3", 0)
		fourth := claim(t, s, "a", time.Minute, jobs.Granted)
		lost(t)
		retryLater(t, s, fourth, "exit 3", 0)
		if c := claim(t, s, "a", time.Minute, jobs.Granted); c.Failures != 4 || c.Attempt != 5 {
			t.Errorf("claim %+v, want attempt 5 after 4 failures", c)
		}
		lost(t)
		if _, err := s.Retry(t.Context(), third, jobs.Outcome{State: jobs.Failed, Retry: true}); err != nil {
			t.Errorf("an attempt of which Redis knows nothing: %v, want it recorded", err)
		}
	})
}

func TestK10FailureOfASilentWorkerIsRefused(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		c := claim(t, s, "a", time.Millisecond, jobs.Granted)
		waitUntil(t, func() bool {
			taken, err := s.Lapse(t.Context(), c, false)
			return taken && err == nil
		})
		if _, err := s.Retry(t.Context(), c, jobs.Outcome{State: jobs.Failed, Retry: true}); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("retry: %v, want ErrLeaseLost", err)
		}
	})
}

func TestK10RedrivenJobHasNoFailures(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		retryLater(t, s, claim(t, s, "a", time.Minute, jobs.Granted), "exit 3", 0)
		end(t, s, jobs.Outcome{State: jobs.Failed, Reason: "exit 3"})
		requeue(t, s, jobs.Failed)
		retryLater(t, s, claim(t, s, "a", time.Minute, jobs.Granted), "exit 3", time.Hour)
		rdb.Del(t.Context(), "job:a")
		requeue(t, s, 0)
		if c := claim(t, s, "a", time.Minute, jobs.Granted); c.Failures != 0 || c.Attempt != 1 {
			t.Errorf("claim %+v, want the first attempt after no failure", c)
		}
	})
}

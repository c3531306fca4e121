package status_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// wantPast compares the past attempts at job a.
func wantPast(t *testing.T, s *status.Store, want ...string) {
	t.Helper()
	e, err := s.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range e.Detail.Past {
		got = append(got, fmt.Sprintf("%d %s %s %s", p.Number, p.Outcome, p.Worker, p.Reason))
		if p.Started.IsZero() || p.Finished.Before(p.Started) {
			t.Errorf("attempt %d began %v and ended %v", p.Number, p.Started, p.Finished)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("past attempts are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestD03EachAttemptSaysWhyItEnded(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		job := jobs.Job{ID: "a", Kind: "pdf"}
		c := begin(t, s, job)
		wantPast(t, s)
		release(t, s, c, "Worker stopped\tnow")
		if _, err := s.Retry(ctx, begin(t, s, job), jobs.Outcome{State: jobs.Failed, Reason: "exit 3\n" + strings.Repeat("é", 200), Retry: true}); err != nil {
			t.Fatal(err)
		}
		long := "exit 3 " + strings.Repeat("é", 95) + "…"
		e, err := s.Get(ctx, "a")
		if err != nil || len(e.Detail.Past) != 2 || len(e.Detail.Past[1].Reason) > 200 || !strings.HasPrefix(e.Detail.Past[1].Reason, long[:150]) {
			t.Fatalf("%+v, %v", e.Detail.Past, err)
		}
		long = e.Detail.Past[1].Reason
		dead := begin(t, s, job)
		rdb.HSet(ctx, "{job:a}:claim", "until", time.Now().Add(-time.Second).UnixMilli())
		s.Worker = "w2"
		last := begin(t, s, job)
		wantPast(t, s, "1 handed back w1 Worker stopped now", "2 failed w1 "+long, "3 crashed w1 ")
		if err := s.Release(ctx, dead, "Redis was away"); err == nil { // it comes back
			t.Error("a late release was none")
		}
		wantPast(t, s, "1 handed back w1 Worker stopped now", "2 failed w1 "+long, "3 handed back w1 Redis was away")
		finish(t, s, last, jobs.Outcome{State: jobs.Failed, Reason: "broken"})
		if _, err := s.Requeue(ctx, job); err != nil {
			t.Fatal(err)
		}
		wantPast(t, s, "1 handed back w1 Worker stopped now", "2 failed w1 "+long, "3 handed back w1 Redis was away", "4 failed w2 broken")
	})
}

func TestD03TheNewestTenAttemptsAreKept(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		job := jobs.Job{ID: "a", Kind: "pdf"}
		for range 13 {
			release(t, s, begin(t, s, job), "again")
		}
		e, err := s.Get(t.Context(), "a")
		if err != nil || len(e.Detail.Past) != 10 || e.Detail.Past[0].Number != 4 || e.Detail.Past[9].Number != 13 {
			t.Errorf("%+v, %v; want those from 4 to 13", e.Detail.Past, err)
		}
		finish(t, s, begin(t, s, jobs.Job{ID: "b"}), jobs.Outcome{State: jobs.Succeeded})
		if rdb.HExists(t.Context(), "{job:b}:detail", "past").Val() {
			t.Error("something is kept of a job that has succeeded at its first attempt")
		}
	})
}

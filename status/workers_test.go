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

func TestF21WorkersAreShownWhileTheyLiveAndOnceTheyAreSilent(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, _ *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		count := &trips{}
		rdb.AddHook(count)
		join := func(name string, inHand int, draining bool, unready string) (*status.Store, *status.Member) {
			t.Helper()
			s := newStore(rdb, name)
			m := s.Member(status.Worker{Host: "h", PID: 7, Version: "v1", Kinds: []jobs.Kind{"mock", "pdf"}, Slots: 2})
			for n := range 2 { // the server learns the script first
				before := count.n.Load()
				if err := m.Pulse(ctx, inHand, draining, unready); err != nil {
					t.Fatal(err)
				}
				if got := count.n.Load() - before; n > 0 && got != 1 {
					t.Errorf("a pulse took %d commands, want 1", got)
				}
			}
			return s, m
		}
		s, _ := join("a idle", 0, false, "")
		join("b working", 1, false, "")
		join("c draining", 1, true, "")
		_, left := join("d left", 0, false, "")
		dead, _ := join("e silent", 1, false, "storage: full")
		old, _ := join("f forgotten", 1, false, "")
		join("g unready", 1, false, "storage: full")
		if err := left.Leave(ctx); err != nil {
			t.Error(err)
		}
		silence := func(s *status.Store, d time.Duration) {
			t.Helper()
			text := rdb.HGet(ctx, "{fleet}:workers", s.ID).Val()
			_, said, _ := strings.Cut(text, " ")
			rdb.HSet(ctx, "{fleet}:workers", s.ID, fmt.Sprintf("%d %s", time.Now().Add(-d).UnixMilli(), said))
		}
		silence(dead, 40*time.Second)
		silence(old, 2*time.Hour)
		rdb.HSet(ctx, "{fleet}:workers", "stranger", "something else")
		if ttl := rdb.TTL(ctx, "{fleet}:worker:"+s.ID).Val(); ttl <= 0 || ttl > 15*time.Second {
			t.Errorf("the key of a worker ends in %s, want 15 s", ttl)
		}
		workers, err := s.Workers(ctx)
		want := []string{"a idle", "b working", "c draining", "e silent", "g unready"}
		if err != nil || len(workers) != len(want) {
			t.Fatalf("workers: %+v, %v", workers, err)
		}
		for i, w := range workers {
			if w.Name != want[i] || !strings.HasSuffix(w.Name, w.State()) || w.Host != "h" || w.PID != 7 || w.Slots != 2 || len(w.Kinds) != 2 || w.Started.IsZero() || w.ID == "" {
				t.Errorf("worker %d: %+v is %s, want %s", i, w, w.State(), want[i])
			}
		}
		if got := workers[4].Unready; got != "storage: full" || workers[0].Unready != "" {
			t.Errorf("unready because of %q, and an idle one of %q", got, workers[0].Unready)
		}
		if d := workers[3].Silent; d < 40*time.Second || d > 2*time.Minute {
			t.Errorf("silent for %s, want 40 s", d)
		}
		join("h new", 0, false, "") // forgets the old one
		if rdb.HExists(ctx, "{fleet}:workers", old.ID).Val() {
			t.Error("a worker that was silent for two hours is kept")
		}
	})
}

func TestF21JobSaysForHowLongItsWorkerIsSilent(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		silent := func() time.Duration {
			t.Helper()
			e, err := s.Get(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			return e.Silent
		}
		if d := silent(); d != 0 {
			t.Errorf("silent for %s right after its claim", d)
		}
		rdb.HSet(t.Context(), "{job:a}:claim", "seen", time.Now().Add(-40*time.Second).UnixMilli())
		if d := silent(); d < 40*time.Second || d > 2*time.Minute {
			t.Errorf("silent for %s, want 40 s", d)
		}
		if err := s.Report(t.Context(), c, time.Minute, nil, jobs.Lines{}); err != nil || silent() != 0 {
			t.Errorf("silent for %s after a report, %v", silent(), err)
		}
		rdb.HSet(t.Context(), "{job:a}:claim", "seen", time.Now().Add(-40*time.Second).UnixMilli())
		if err := s.Release(t.Context(), c, "again"); err != nil || silent() != 0 {
			t.Errorf("silent for %s while it is queued, %v", silent(), err)
		}
	})
}

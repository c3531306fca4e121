package status_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// kindsOf returns kind=queued/running of all kinds.
func kindsOf(t *testing.T, s *status.Store) (all []string) {
	t.Helper()
	c, err := s.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range c.Kinds {
		all = append(all, fmt.Sprintf("%s=%d/%d", k.Kind, k.Queued, k.Running))
	}
	return all
}

func wantKinds(t *testing.T, s *status.Store, want ...string) {
	t.Helper()
	if got := kindsOf(t, s); !slices.Equal(got, want) {
		t.Errorf("kinds are %v, want %v", got, want)
	}
}

func begin(t *testing.T, s *status.Store, job jobs.Job) jobs.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), job, time.Minute, jobs.Claim{})
	if err != nil || c.Verdict != jobs.Granted {
		t.Fatalf("claim %s: %+v, %v", job.ID, c, err)
	}
	return c
}

func TestD01CountFollowsEveryMoveOfAJob(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		ctx := t.Context()
		at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
		pdf := jobs.Job{ID: "a", Kind: "pdf", Submitted: at}
		submit(t, s, pdf)
		submit(t, s, pdf) // known: it came once
		submit(t, s, jobs.Job{ID: "b", Kind: "pdf"})
		submit(t, s, jobs.Job{ID: "c"}) // its worker says what it is
		submit(t, s, jobs.Job{ID: "odd", Kind: "No Name"})
		wantKinds(t, s, "pdf=2/0", "unknown=2/0")
		c, err := s.Count(ctx)
		if err != nil || len(c.Kinds) == 0 || !c.Kinds[0].Oldest.Equal(at) {
			t.Errorf("counted %+v, %v; want the oldest of pdf created at %v", c, err, at)
		}
		a := begin(t, s, pdf)
		wantKinds(t, s, "pdf=1/1", "unknown=2/0")
		release(t, s, a, "again")
		wantKinds(t, s, "pdf=2/0", "unknown=2/0")
		a = begin(t, s, pdf)
		if _, err := s.Retry(ctx, a, jobs.Outcome{State: jobs.Failed, Reason: "r", Retry: true}); err != nil {
			t.Fatal(err)
		}
		wantKinds(t, s, "pdf=2/0", "unknown=2/0")
		finish(t, s, begin(t, s, pdf), jobs.Outcome{State: jobs.Failed, Reason: "r"})
		wantKinds(t, s, "pdf=1/0", "unknown=2/0")
		if _, err := s.Requeue(ctx, pdf); err != nil {
			t.Fatal(err)
		}
		for _, id := range []jobs.ID{"b", "odd"} {
			if _, err := s.Cancel(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		wantKinds(t, s, "pdf=1/0", "unknown=1/0")
		last := begin(t, s, jobs.Job{ID: "c", Kind: "mock"})
		wantKinds(t, s, "mock=0/1", "pdf=1/0")
		finish(t, s, last, jobs.Outcome{State: jobs.Succeeded})
		finish(t, s, last, jobs.Outcome{State: jobs.Succeeded}) // its answer was lost
		begin(t, s, jobs.Job{ID: "never-submitted", Kind: "pdf"})
		wantKinds(t, s, "pdf=1/1")
		c, err = s.Count(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want := map[jobs.State]int{jobs.Queued: 1, jobs.Running: 1, jobs.Succeeded: 1, jobs.Failed: 0, jobs.Canceled: 2}
		if diff := cmp.Diff(want, c.States); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(status.Flow{In: 6, Succeeded: 1, Failed: 1, Canceled: 2}, c.Total); diff != "" { // a was queued again
			t.Errorf("total (-want +got):\n%s", diff)
		}
		if r := fsck(t, s, false); len(r.Findings) != 0 {
			t.Errorf("findings: %+v", r.Findings)
		}
	})
}

func TestD01OldHoursAreAddedUp(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		hour := time.Now().Unix() / 3600
		for ago, n := range map[int64]int{0: 1, 1: 2, 24: 4, 25: 8, 1000: 16} {
			rdb.HSet(t.Context(), "jobs:flow", fmt.Sprintf("in %d", hour-ago), n)
		}
		for range 2 {
			c, err := s.Count(t.Context())
			if err != nil || c.Total.In != 31 || len(c.Hours) != 3 || c.Hours[0].In != 4 || c.Hours[2].In != 1 || c.Hours[2].Start.Unix() != hour*3600 {
				t.Errorf("counted %+v, %v", c, err)
			}
			if err := s.Member(status.Worker{}).Pulse(t.Context(), 0, false, ""); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]string{fmt.Sprintf("in %d", hour): "1", fmt.Sprintf("in %d", hour-1): "2", fmt.Sprintf("in %d", hour-24): "4", "in": "24"}
		if diff := cmp.Diff(want, rdb.HGetAll(t.Context(), "jobs:flow").Val()); diff != "" {
			t.Errorf("after a worker has looked (-want +got):\n%s", diff)
		}
	})
}

func TestD01CountIsTwoRoundTripsAndHealsWhatIsForgotten(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		now := time.Now()
		submit(t, s, jobs.Job{ID: "old", Kind: "pdf", Submitted: now.Add(-25 * time.Hour)})
		submit(t, s, jobs.Job{ID: "new", Kind: "pdf", Submitted: now.Add(-time.Hour)})
		count := &trips{}
		rdb.AddHook(count)
		kinds := func(trips int64) status.KindCount {
			t.Helper()
			before := count.n.Load()
			c, err := s.Count(ctx)
			if err != nil || len(c.Kinds) != 1 {
				t.Fatalf("counted %+v, %v", c, err)
			}
			if got := count.n.Load() - before; trips > 0 && got != trips {
				t.Errorf("%d round trips, want %d", got, trips)
			}
			return c.Kinds[0]
		}
		kinds(0) // it looks whether the oldest is forgotten
		rdb.Del(ctx, "job:old", "{job:old}:detail")
		kinds(0)
		if got := kinds(2); got.Queued != 1 || now.Sub(got.Oldest) > 2*time.Hour {
			t.Errorf("counted %+v, want the one that is known", got)
		}
		wantList(t, s, jobs.Queued, "new")
	})
}

func TestD01FsckRepairsTheIndexesByKind(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		for _, id := range []jobs.ID{"missing", "fine", "gone"} {
			submit(t, s, jobs.Job{ID: id, Kind: "pdf"})
		}
		submit(t, s, jobs.Job{ID: "other", Kind: "mock"})
		finish(t, s, begin(t, s, jobs.Job{ID: "ended", Kind: "mock"}), jobs.Outcome{State: jobs.Succeeded})
		score := float64(time.Now().UnixMicro())
		rdb.ZRem(ctx, "jobs:queued:pdf", "missing")
		rdb.ZAdd(ctx, "jobs:queued:pdf", redis.Z{Score: score, Member: "other"})
		rdb.ZAdd(ctx, "jobs:queued:mock", redis.Z{Score: score, Member: "ended"})
		rdb.Del(ctx, "job:gone", "{job:gone}:detail")
		rdb.ZRem(ctx, "jobs:index", "gone")
		rdb.ZRem(ctx, "jobs:index:queued", "gone")
		want := map[string]int{"not in its state": 1, "in the wrong state": 2, "forgotten job": 1}
		for _, repair := range []bool{false, true} {
			if r := fsck(t, s, repair); !cmp.Equal(want, r.Counts) || repair && r.Left != 0 {
				t.Errorf("repair %v: %+v, want %v", repair, r, want)
			}
		}
		if r := fsck(t, s, false); len(r.Findings) != 0 {
			t.Errorf("after the repair: %+v", r.Findings)
		}
		wantKinds(t, s, "mock=1/0", "pdf=2/0")
	})
}

func TestD01KindsAreBounded(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		for i := range 520 {
			submit(t, s, jobs.Job{ID: jobs.ID(fmt.Sprintf("j%d", i)), Kind: jobs.Kind(fmt.Sprintf("k%d", i))})
		}
		c, err := s.Count(t.Context())
		if err != nil || len(c.Kinds) != 500 || c.States[jobs.Queued] != 520 {
			t.Errorf("counted %d kinds and %d jobs, %v; want 500 and 520", len(c.Kinds), c.States[jobs.Queued], err)
		}
		if n := rdb.ZCard(t.Context(), "jobs:kinds").Val(); n != 500 {
			t.Errorf("%d kinds are kept, want 500", n)
		}
	})
}

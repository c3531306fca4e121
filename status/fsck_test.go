package status_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/status/redistest"
)

func fsck(t *testing.T, s *status.Store, repair bool) redisdb.Audit {
	t.Helper()
	r, err := s.Fsck(t.Context(), repair)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFsckFindsAndRepairs(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		for _, id := range []jobs.ID{"good", "gone", "moved", "twice", "none", "alone", "late", "bad", "list"} {
			submit(t, s, jobs.Job{ID: id, Kind: "pdf"})
		}
		claim(t, s, "lost", time.Minute, jobs.Granted)
		rdb.HSet(ctx, "{job:lost}:claim", "until", time.Now().Add(-time.Hour).UnixMilli())
		z := func(m string) redis.Z { return redis.Z{Score: rdb.ZScore(ctx, "jobs:index", m).Val(), Member: m} }
		rdb.Del(ctx, "job:gone")
		rdb.ZAdd(ctx, "jobs:index:failed", z("moved"), z("twice"))
		rdb.ZRem(ctx, "jobs:index:queued", "moved", "none")
		rdb.ZRem(ctx, "jobs:index", "alone")
		rdb.ZAdd(ctx, "jobs:index", redis.Z{Score: 1e15, Member: "late"})
		rdb.Set(ctx, "job:bad", "{", 0)
		rdb.Del(ctx, "job:list")
		rdb.LPush(ctx, "job:list", "x")
		want := map[string]int{
			"forgotten job": 1, "in the wrong state": 2, "not in its state": 1, "not in the index": 1, "out of order": 1,
			"unreadable document": 2, "running without worker": 1,
		}
		before := rdb.ZRangeWithScores(ctx, "jobs:index:queued", 0, -1).Val()
		r := fsck(t, s, false)
		if diff := cmp.Diff(want, r.Counts); diff != "" {
			t.Errorf("findings (-want +got):\n%s\n%+v", diff, r.Findings)
		}
		if r.Left != 7 || r.Jobs["queued"] != 5 || r.Jobs["running"] != 1 {
			t.Errorf("left %d of jobs %v", r.Left, r.Jobs)
		}
		if diff := cmp.Diff(before, rdb.ZRangeWithScores(ctx, "jobs:index:queued", 0, -1).Val()); diff != "" {
			t.Errorf("a check has changed something:\n%s", diff)
		}
		r = fsck(t, s, true)
		if diff := cmp.Diff(want, r.Counts); diff != "" || r.Left != 2 {
			t.Errorf("left %d, want the two that cannot be read; findings (-want +got):\n%s\n%+v", r.Left, diff, r.Findings)
		}
		want = map[string]int{"unreadable document": 2, "running without worker": 1}
		if r = fsck(t, s, false); !maps.Equal(want, r.Counts) {
			t.Errorf("after the repair: %+v", r)
		}
		wantList(t, s, jobs.Failed)
		if got := list(t, s, status.Query{Limit: 50, State: jobs.Queued}); len(got) != 6 {
			t.Errorf("queued are %v, want all six", got)
		}
	})
}

func TestFsckGivesTheQueueHalfAnHourToDeliverAgain(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t).Client()
	s := newStore(rdb, "w1")
	for id, over := range map[jobs.ID]time.Duration{"recent": 29 * time.Minute, "orphan": 31 * time.Minute} {
		claim(t, s, id, time.Minute, jobs.Granted)
		rdb.HSet(t.Context(), "{job:"+string(id)+"}:claim", "until", time.Now().Add(-over).UnixMilli())
	}
	if r := fsck(t, s, false); len(r.Findings) != 1 || r.Findings[0].Job != "orphan" || r.Findings[0].Kind != "running without worker" {
		t.Errorf("findings are %+v, want the job without a worker for 31 minutes", r.Findings)
	}
}

func TestFsckFindsNothingWhileAFleetRuns(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	rdb := redistest.New(t).Client()
	s := newStore(rdb, "w1")
	stop := make(chan struct{})
	var fleet sync.WaitGroup
	for w := range 4 {
		fleet.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := jobs.ID(fmt.Sprintf("j%d-%d", w, i))
				_, _ = s.Submit(t.Context(), jobs.Job{ID: id})
				c, _ := s.Claim(t.Context(), jobs.Job{ID: id}, time.Minute, jobs.Claim{})
				switch i % 3 {
				case 0:
					_, _ = s.Finish(t.Context(), c, jobs.Outcome{State: jobs.Succeeded})
				case 1:
					_ = s.Release(t.Context(), c, "again")
				}
			}
		})
	}
	for _, repair := range []bool{false, true, false} {
		if r := fsck(t, s, repair); len(r.Findings) != 0 {
			t.Errorf("findings in a fleet that runs: %+v", r)
		}
	}
	close(stop)
	fleet.Wait()
}

func TestFsckBoundsItsReport(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	rdb := redistest.New(t).Client()
	s := newStore(rdb, "w1")
	var entries []redis.Z
	for i := range 12_500 {
		entries = append(entries, redis.Z{Score: float64(time.Now().UnixMicro()), Member: fmt.Sprintf("gone%d", i)})
	}
	if err := rdb.ZAdd(t.Context(), "jobs:index", entries...).Err(); err != nil {
		t.Fatal(err)
	}
	r := fsck(t, s, true)
	if r.Counts["forgotten job"] != 12_500 || len(r.Findings) != 1000 || r.Left != 0 {
		t.Errorf("%v, %d listed, %d left; want all counted, 1000 listed", r.Counts, len(r.Findings), r.Left)
	}
	if n := rdb.ZCard(t.Context(), "jobs:index").Val(); n != 0 {
		t.Errorf("%d left in the index", n)
	}
}

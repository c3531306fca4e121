package status_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/status/redistest"
)

func TestDrainIsAskedForOnceAndHasNoEnd(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		for _, step := range []struct{ on, changed bool }{{false, false}, {true, true}, {true, false}, {false, true}, {false, false}, {true, true}} {
			changed, err := s.SetDraining(ctx, step.on)
			if err != nil || changed != step.changed {
				t.Errorf("set %v: changed %v, %v; want %v", step.on, changed, err, step.changed)
			}
			since, err := s.Draining(ctx)
			on := since != ""
			ready, err2 := s.Ready(ctx)
			if err != nil || err2 != nil || on != step.on || ready != step.on {
				t.Errorf("draining is %v and %v, %v, %v; want %v", on, ready, err, err2, step.on)
			}
		}
		if ttl := rdb.TTL(ctx, "fleet:draining").Val(); ttl != -1 {
			t.Errorf("draining ends after %s", ttl)
		}
	})
}

func TestDrainSeesLiveClaimsOnly(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		submit(t, s, jobs.Job{ID: "queued"})
		live := claim(t, s, "live", time.Minute, jobs.Granted)
		claim(t, s, "killed", time.Millisecond, jobs.Granted)
		back := claim(t, s, "back", time.Minute, jobs.Granted)
		release(t, s, back, "again")
		// Its index was not written before its worker died.
		finish(t, s, claim(t, s, "ended", time.Minute, jobs.Granted), jobs.Outcome{State: jobs.Succeeded})
		rdb.ZAdd(ctx, "jobs:index:running", redis.Z{Score: 1, Member: "ended"}, redis.Z{Score: 1, Member: "forgotten"})
		rdb.ZRem(ctx, "jobs:index:succeeded", "ended")
		var held []status.Holder
		waitUntil(t, func() bool { // the claim of a millisecond ends
			var err error
			if held, err = s.Held(ctx); err != nil {
				t.Fatal(err)
			}
			return len(held) == 1
		})
		if h := held[0]; h.Job != "live" || h.Worker != "w1" || h.Left <= 0 || h.Left > time.Minute {
			t.Errorf("held: %+v", h)
		}
		wantList(t, s, jobs.Succeeded, "ended")
		if got := members(t, rdb, "jobs:index:running"); len(got) != 2 { // killed still counts as running
			t.Errorf("index of running jobs has %q after it was read", got)
		}
		finish(t, s, live, jobs.Outcome{State: jobs.Succeeded})
		if held, err := s.Held(ctx); err != nil || len(held) != 0 {
			t.Errorf("held at the end: %v, %v", held, err)
		}
	})
}

func TestDrainCountsHoldersOfAllPagesUpToItsLimit(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t).Client()
	s := newStore(rdb, "w1")
	ctx := t.Context()
	until := time.Now().Add(time.Hour).UnixMilli()
	for _, n := range []int{2500, status.MaxHeld + 100} {
		_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range n {
				id := fmt.Sprintf("j%05d", i)
				pipe.HSet(ctx, "{job:"+id+"}:claim", "token", "t", "until", until)
				pipe.ZAdd(ctx, "jobs:index:running", redis.Z{Score: float64(i), Member: id})
			}
			return nil
		})
		held, err2 := s.Held(ctx)
		if err != nil || err2 != nil || len(held) != min(n, status.MaxHeld) {
			t.Errorf("%d of %d jobs are held; %v, %v", len(held), n, err, err2)
		}
	}
}

func TestDrainIsNotReadyWhileRedisTakesNoWrites(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t).Client()
	s := newStore(rdb, "w1")
	ctx := t.Context()
	if err := rdb.ConfigSet(ctx, "min-replicas-to-write", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ready(ctx); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("a Redis that takes no writes: %v, want jobs.ErrUnavailable", err)
	}
	if err := rdb.ConfigSet(ctx, "min-replicas-to-write", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ready(ctx); err != nil {
		t.Error(err)
	}
}

func TestQueuesAreRecordedOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		ctx := t.Context()
		q := status.Queue{Topic: "projects/p/topics/t", Subscription: "projects/p/subscriptions/s"}
		set := func(name string, q status.Queue, want bool) {
			t.Helper()
			if changed, err := s.RegisterQueue(ctx, name, q); err != nil || changed != want {
				t.Errorf("register: %v, %v; want %v", changed, err, want)
			}
		}
		set("normal", q, true)
		set("normal", q, false)
		q.DeadTopic = "projects/p/topics/d"
		set("normal", q, true)
		if all, err := s.Queues(ctx); err != nil || len(all) != 1 || all["normal"] != q {
			t.Errorf("queues are %v, %v", all, err)
		}
		for name, bad := range map[string]status.Queue{"": q, "a b": q, strings.Repeat("a", 64): q, "A": q, "x": {}, "long": {Topic: strings.Repeat("t", 601), Subscription: "s"}} {
			if _, err := s.RegisterQueue(ctx, name, bad); !errors.Is(err, status.ErrQueue) {
				t.Errorf("queue %q: %v, want it refused", name, err)
			}
		}
		for i := range 99 {
			set(fmt.Sprintf("q%d", i), q, true)
		}
		if _, err := s.RegisterQueue(ctx, "one-more", q); !errors.Is(err, status.ErrQueue) {
			t.Errorf("queue 101: %v, want it refused", err)
		}
		set("q7", q, false)
	})
}

func TestJ14AJobThatIsCanceledBeforeItStartsHasAnEnd(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		before := time.Now().Add(-time.Minute)
		submit(t, s, jobs.Job{ID: "queued"})
		if state, err := s.Cancel(t.Context(), "queued"); err != nil || state != jobs.Canceled {
			t.Errorf("cancel: %v, %v", state, err)
		}
		found, err := s.Entries(t.Context(), []jobs.ID{"queued"})
		if err != nil || len(found) != 1 || found[0].Detail.Finished.Before(before) {
			t.Errorf("found %+v, %v", found, err)
		}
	})
}

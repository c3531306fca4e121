package control_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

// reaps has the reaper work at once, and not a Period after Run began.
func (r *rig) reaps() {
	var reaper sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	reaper.Go(func() { control.Rounds(r.plane, ctx) })
	r.t.Cleanup(func() {
		cancel()
		reaper.Wait()
	})
}

func TestZ70ReaperLooksWhenALeaseIsOverAndNotOnlyEachPeriod(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.plane.Period, r.queue.LeaseTTL, r.queue.Skew = time.Hour, 200*time.Millisecond, 0
	})
	r.reaps()
	w := r.worker()
	for range 3 { // also leases that did not exist when the reaper last looked
		id := r.submit()
		if g := w.lease(); g.JobID != id {
			t.Fatalf("leased %+v", g)
		}
		until(t, "the lease is taken back", func() bool { return r.job(id).ErrorCode == "LEASE_EXPIRED" })
	}
}

func TestZ38ReaperLooksWhenAWorkerIsRevokedAndNotOnlyEachPeriod(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.Period = time.Hour })
	r.reaps()
	id := r.submit()
	for range 3 { // also when the reaper has looked already
		w := r.worker()
		if g := w.lease(); g.JobID != id {
			t.Fatalf("leased %+v", g)
		}
		decode[wire.RevokeResponse](t, r.do("DELETE", wire.PathServers+"/"+w.id, nil, bearer(adminToken)...))
		until(t, "the job is queued again", func() bool { return r.job(id).Status == "queued" })
	}
}

func TestZ70PauseOfTheReaper(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := newRig(t, func(r *rig) {
		r.plane.Period = time.Hour
		r.queue.Now = func() time.Time { return now.Add(time.Duration(r.ahead.Load())) }
	})
	pause := func(want time.Duration) {
		t.Helper()
		if got := control.Pause(r.plane, t.Context()); (got - want).Abs() > time.Millisecond {
			t.Errorf("pause of %v, want %v", got, want)
		}
	}
	pause(605 * time.Second) // a lease that is handed out now
	w := r.worker()
	r.submit()
	w.lease()
	r.ahead.Store(int64(10 * time.Minute))
	pause(5 * time.Second)
	r.ahead.Add(int64(4950 * time.Millisecond))
	pause(100 * time.Millisecond)
	r.ahead.Add(int64(time.Hour))
	pause(100 * time.Millisecond)
	r.stop() // Run reads the period when it begins, which may be late
	r.plane.Period = time.Minute
	r.ahead.Store(0)
	pause(time.Minute)
}

func TestZ07StartWithoutRedisIsLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.redis.Kill()
		r.queue.CallTimeout = 300 * time.Millisecond
	})
	until(t, "it is logged", func() bool {
		return strings.Contains(r.log.String(), `"level":"WARN","msg":"cannot reach Redis; answers 503 until it can"`)
	})
	refused(t, r.do("GET", "/calc/zpe/jobs/x", nil), 503, wire.Unavailable)
}

// logged returns the lines of the log with this message.
func (r *rig) logged(message string) (lines []string) {
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, `"msg":"`+message+`"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

// wantLine checks that a line has all of the parts.
func wantLine(t *testing.T, lines []string, parts ...string) {
	t.Helper()
	if len(lines) != 1 {
		t.Errorf("%d lines %q, want one with %q", len(lines), lines, parts)
		return
	}
	for _, p := range parts {
		if !strings.Contains(lines[0], p) {
			t.Errorf("line %s, want %s in it", lines[0], p)
		}
	}
}

func TestFailuresAndDeadLettersAreLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	again, final := r.submit(), r.submit()
	w.report("failed", again, broken(w.lease().LeaseID, "QE_RUNTIME_ERROR"))
	g := w.lease()
	for range 2 { // the same report twice is one failure
		w.report("failed", final, broken(g.LeaseID, "INVALID_INPUT"))
	}
	wantLine(t, r.logged("job failed"), `"level":"INFO"`, again, `"code":"QE_RUNTIME_ERROR"`, `"outcome":"requeued"`, `"retries":1`)
	wantLine(t, r.logged("job is a dead letter"), `"level":"WARN"`, final, `"code":"INVALID_INPUT"`, `"retries":1`)
}

func TestDeadLettersOfTheReaperAreLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.Period, r.queue.MaxRetries = time.Hour, 0 })
	w := r.worker()
	id := r.submit()
	w.lease()
	r.ahead.Store(int64(11 * time.Minute))
	control.Round(r.plane, t.Context())
	wantLine(t, r.logged("job is a dead letter"), `"level":"WARN"`, id, `"code":"LEASE_EXPIRED"`, `"retries":1`)
}

func TestOperatorsDoingsAreLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, admin := r.worker(), bearer(adminToken)
	a := r.submit()
	w.report("failed", a, broken(w.lease().LeaseID, "INVALID_INPUT"))
	r.do("POST", wire.PathDLQ+"/"+a+"/requeue", nil, admin...)
	w.report("failed", a, broken(w.lease().LeaseID, "INVALID_INPUT"))
	r.do("DELETE", wire.PathDLQ+"/"+a, nil, admin...)
	r.do("PUT", wire.PathOps, `{"submission_enabled":false}`, admin...)
	r.do("DELETE", "/calc/zpe/compute/servers/"+w.id, nil, admin...)
	wantLine(t, r.logged("dead letter queued again"), `"level":"INFO"`, a)
	wantLine(t, r.logged("dead letter dropped"), `"level":"INFO"`, a)
	wantLine(t, r.logged("switches set"), `"level":"INFO"`, `"submission_enabled":false`)
	wantLine(t, r.logged("worker revoked"), `"level":"INFO"`, w.id, `"tokens":1`, `"leases":0`)
}

func TestJ07ReaperDropsExpiredJobsFromTheLists(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.Period = 20 * time.Millisecond })
	r.listed(1000) // which have moved since, and stay
	gone, stays := r.submit(), r.submit()
	r.rdb.Del(t.Context(), "zpe:status:"+gone)
	r.ahead.Store(int64(8 * 24 * time.Hour))
	listed := func(id string) bool { return r.rdb.ZScore(t.Context(), "zpe:jobs:queued", id).Err() == nil }
	until(t, "the job has gone", func() bool { return !listed(gone) })
	if !listed(stays) {
		t.Error("a job that is on record has gone, too")
	}
	if n := r.rdb.ZCard(t.Context(), "zpe:jobs:queued").Val(); n != 1001 {
		t.Errorf("%d jobs are listed, want 1001", n)
	}
}

func TestJ07ReaperDropsAsManyExpiredJobsAsThereAreAndNotSoManyAPeriod(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	ids := r.listed(3500)
	for keys := range slices.Chunk(ids, 500) {
		for i, id := range keys {
			keys[i] = "zpe:status:" + id
		}
		r.rdb.Del(t.Context(), keys...)
	}
	r.reaps()
	until(t, "all have gone", func() bool { return r.rdb.ZCard(t.Context(), "zpe:jobs:queued").Val() == 0 })
}

// listed puts jobs on record that were created long ago, and returns their ids.
func (r *rig) listed(n int) (ids []string) {
	r.t.Helper()
	pipe := r.rdb.Pipeline()
	for i := range n {
		id := fmt.Sprintf("old%05d", i)
		pipe.ZAdd(r.t.Context(), "zpe:jobs:queued", redis.Z{Score: float64(i), Member: id})
		pipe.HSet(r.t.Context(), "zpe:status:"+id, "status", "queued")
		ids = append(ids, id)
	}
	if _, err := pipe.Exec(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return ids
}

func TestZ07WhatIsWrongWithRedisIsLoggedWhenItChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.CheckEvery = 10 * time.Millisecond })
	says := func(message string, n int) {
		t.Helper()
		until(t, "it says: "+message, func() bool { return len(r.logged(message)) == n })
	}
	for n := 1; n < 3; n++ {
		r.rdb.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru")
		says("cannot work with this Redis", n)
		r.rdb.ConfigSet(t.Context(), "maxmemory-policy", "noeviction")
		says("can work with Redis again", n)
	}
	wantLine(t, r.logged("cannot work with this Redis")[:1], `"level":"ERROR"`, "noeviction")
}

package control_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

// The lease of these tests lasts 10 minutes, so a heartbeat has 200 s to come.

func TestZ70FrozenGatewayWaitsForHeartbeatsBeforeItTakesLeases(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	w := r.worker()
	r.submit()
	lives := w.lease()
	r.submit()
	dead := w.lease()
	// It is frozen until both leases are over.
	r.ahead.Store(int64(11 * time.Minute))
	control.StandStill(r.plane, 11*time.Minute)
	started := func(when string) {
		t.Helper()
		for _, id := range []string{lives.JobID, dead.JobID} {
			if j := r.job(id); j.Status != "started" {
				t.Errorf("%s job %s is %s (%s), want it started", when, id, j.Status, j.Detail)
			}
		}
	}
	if wait := control.Reap(r.plane, t.Context()); wait < time.Second {
		t.Errorf("the reaper comes again after %s", wait)
	}
	started("right after")
	if err := control.Promote(r.plane, t.Context()); err != nil { // now Redis has answered, too
		t.Fatal(err)
	}
	control.Reap(r.plane, t.Context())
	started("once Redis has answered")
	decode[wire.HeartbeatResponse](t, w.report("heartbeat", lives.JobID, wire.HeartbeatRequest{LeaseID: lives.LeaseID}))

	for range 2 { // the time for a heartbeat passes, in which the gateway works
		control.StandStill(r.plane, 120*time.Second)
		if err := control.Promote(r.plane, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	control.Reap(r.plane, t.Context())
	if j := r.job(lives.JobID); j.Status != "started" {
		t.Errorf("the job that is extended is %s (%s)", j.Status, j.Detail)
	}
	if j := r.job(dead.JobID); j.ErrorCode != "LEASE_EXPIRED" {
		t.Errorf("the job that is not extended is %s", j.Status)
	}
	if n := len(r.logged("gateway or Redis was unresponsive; no lease is taken back until workers have had time to extend theirs")); n != 1 {
		t.Errorf("it is logged %d times, want once", n)
	}
}

func TestZ70LeasesAreKeptForAHeartbeatAfterRedisWasAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	w := r.worker()
	id := r.submit()
	w.lease()
	r.redis.Freeze()
	control.StandStill(r.plane, 11*time.Minute)
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := control.Promote(r.plane, short); err == nil {
		t.Error("a frozen Redis has answered")
	}
	r.redis.Resume()
	r.ahead.Store(int64(11 * time.Minute))
	if err := control.Promote(r.plane, t.Context()); err != nil {
		t.Fatal(err)
	}
	control.Reap(r.plane, t.Context())
	if j := r.job(id); j.Status != "started" {
		t.Errorf("the job is %s (%s), want it started", j.Status, j.Detail)
	}
}

func TestDelayedJobsAreQueuedWhenTheyAreDueAndNotWithTheReaper(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	w := r.worker()
	id := r.submit()
	w.report("failed", id, broken(w.lease().LeaseID, "X"))
	queued := func() int64 { return r.rdb.LLen(t.Context(), "zpe:queue").Val() }
	if n := queued(); n != 0 {
		t.Fatalf("%d jobs are queued at once", n)
	}
	r.ahead.Store(int64(time.Minute))
	until(t, "the job is queued", func() bool { return queued() == 1 })
}

// TestRoutesAndReaperComeInAnyOrder tells something only under the race detector,
// and when a part is made twice.
func TestRoutesAndReaperComeInAnyOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := &control.Control{Queue: r.queue, Log: slog.New(slog.DiscardHandler), Metrics: control.NewMetrics("test", r.queue)}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { c.Run(ctx) })
	var made sync.WaitGroup
	for range 2 {
		made.Go(func() { c.Handler() })
		made.Go(func() { _, _ = c.Cancel(ctx, "nobody") })
	}
	made.Wait()
}

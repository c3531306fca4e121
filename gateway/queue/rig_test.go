package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// rig is a queue on a server of its own, with a clock that stands still.
type rig struct {
	testing.TB
	*queue.Queue
	rdb   *redis.Client
	clock *clock
	srv   *redistest.Server // nil on miniredis
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newRig(tb testing.TB) *rig {
	tb.Helper()
	srv := redistest.New(tb)
	r := rigOn(tb, srv.Client())
	r.srv = srv
	return r
}

func rigOn(tb testing.TB, rdb *redis.Client) *rig {
	tb.Helper()
	r := &rig{TB: tb, Queue: queue.New(rdb, queue.DefaultRules), rdb: rdb, clock: &clock{now: time.UnixMilli(1_795_300_000_123)}}
	r.Now = r.clock.Now
	return r
}

// onBoth runs a test on a real server and on miniredis, which has the scripts'
// commands but is another implementation of all of them.
func onBoth(t *testing.T, test func(r *rig)) {
	t.Run("redis", func(t *testing.T) { test(newRig(t)) })
	t.Run("miniredis", func(t *testing.T) {
		testrun.Once(t, "the scripts run in Lua of others, and the same code of ours asks a real server as well")
		rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), DisableIdentity: true, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
		t.Cleanup(func() { _ = rdb.Close() })
		test(rigOn(t, rdb))
	})
}

func (r *rig) ctx() context.Context { return r.Context() }

var (
	w1 = queue.Caller{Worker: "w1"}
	w2 = queue.Caller{Worker: "w2"}
)

// must returns v, and ends the test if there is an error.
func must[T any](v T, err error) func(r *rig) T {
	return func(r *rig) T {
		r.Helper()
		if err != nil {
			r.Fatal(err)
		}
		return v
	}
}

func (r *rig) submit(ids ...jobs.ID) {
	r.Helper()
	for _, id := range ids {
		must(r.Submit(r.ctx(), id, []byte(`{"of":"`+string(id)+`"}`), ""))(r)
	}
}

// lease leases a job, which must be want; "" is none.
func (r *rig) lease(c queue.Caller, want jobs.ID) queue.Grant {
	r.Helper()
	g, err := r.Lease(r.ctx(), c, queue.LeaseRequest{Renews: true})
	if err != nil || g.Job != want {
		r.Fatalf("leased %q, %v; want %q", g.Job, err, want)
	}
	return g
}

func (r *rig) finish(c queue.Caller, g queue.Grant, json string) (late bool, err error) {
	_, late, err = r.Finish(r.ctx(), c, g.Job, g.LeaseID, queue.Result{JSON: json, Summary: "s", Freqs: "f", Meta: "{}"})
	return late, err
}

func (r *rig) fail(c queue.Caller, g queue.Grant, how queue.RetryPolicy) queue.FailResult {
	r.Helper()
	return must(r.Queue.Fail(r.ctx(), c, g.Job, g.LeaseID, queue.Failure{Code: "X", Message: "y", RetryPolicy: how}))(r)
}

func (r *rig) status(id jobs.ID, want string) queue.Job {
	r.Helper()
	j, err := r.Job(r.ctx(), id)
	if err != nil || j.Status != want {
		r.Errorf("job %s is %+v, %v; want %s", id, j, err, want)
	}
	return j
}

// do sends a command and returns the answer as text.
func (r *rig) do(args ...any) string {
	r.Helper()
	v, err := r.rdb.Do(r.ctx(), args...).Result()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(v)
}

func (r *rig) is(want string, args ...any) {
	r.Helper()
	if got := r.do(args...); got != want {
		r.Errorf("%v: %s, want %s", args, got, want)
	}
}

// keepsFor checks the time to live of a key.
func (r *rig) keepsFor(key string, want time.Duration) {
	r.Helper()
	got := r.rdb.PTTL(r.ctx(), key).Val()
	if got > want || got < want-time.Minute {
		r.Errorf("%s is kept for %v, want %v", key, got, want)
	}
}

// clean reports whether everything was looked at and nothing is wrong; harmless
// findings do not count.
func clean(rep queue.Report) bool {
	bad := rep.Unchecked
	for kind, n := range rep.Counts {
		if !queue.Harmless(kind) {
			bad += n
		}
	}
	return bad == 0
}

// sound checks that Fsck has nothing to say, harmless or not.
func (r *rig) sound() {
	r.Helper()
	r.soundBut("")
}

// soundBut is sound, but for findings of a kind.
func (r *rig) soundBut(harmless string) {
	r.Helper()
	rep, err := r.Fsck(r.ctx(), false)
	delete(rep.Counts, harmless)
	if err != nil || len(rep.Counts) > 0 || rep.Unchecked > 0 {
		r.Errorf("fsck: %+v, %v; want nothing found", rep, err)
	}
}

package queue_test

import (
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
)

func TestCancelAskedForAgainChangesNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		r.lease(w1, "a")
		cancel := func() string {
			if _, err := r.Cancel(r.ctx(), "a"); err != nil {
				r.Error(err)
			}
			if j := r.status("a", "started"); !j.CancelRequested {
				r.Errorf("%+v", j)
			}
			return r.do("HGETALL", "zpe:status:a")
		}
		first := cancel()
		r.clock.pass(time.Minute)
		if second := cancel(); second != first {
			r.Errorf("the status was %s, and is %s", first, second)
		}
	})
}

// Whoever ends a canceled job, its code is the same, and not that of a run before.
func TestCanceledJobHasTheCodeCanceled(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *rig){
		"while it is put off": func(r *rig) {},
		"by the reaper": func(r *rig) {
			r.clock.pass(time.Minute)
			r.lease(w1, "a")
		},
		"by the worker, for another reason": func(r *rig) {
			r.clock.pass(time.Minute)
			g := r.lease(w1, "a")
			_, _ = r.Cancel(r.ctx(), "a")
			r.fail(w1, g, queue.Retry)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(r *rig) {
				r.submit("a")
				g := r.lease(w1, "a")
				must(r.Queue.Fail(r.ctx(), w1, "a", g.LeaseID, queue.Failure{Code: "EARLIER", Message: "m", Traceback: "t", RetryPolicy: queue.Retry}))(r)
				end(r)
				if _, err := r.Cancel(r.ctx(), "a"); err != nil {
					r.Error(err)
				}
				r.clock.pass(time.Hour)
				must(r.Reap(r.ctx()))(r)
				j := r.status("a", "failed")
				if j.ErrorCode != "CANCELED" || j.Detail != "canceled" || j.Traceback == "t" {
					r.Errorf("%+v", j)
				}
			})
		})
	}
}

func TestJ14RequestsToCancelAreListedForAMinute(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "old")
		g := r.lease(w1, "a")
		now := r.rdb.Time(r.ctx()).Val() // by the clock of Redis
		r.do("ZADD", "zpe:cancels", now.Add(-2*time.Minute).UnixMilli(), "old")
		r.do("ZADD", "zpe:cancels", now.Add(-time.Second).UnixMilli(), "recent")
		must(r.Cancel(r.ctx(), g.Job))(r)
		r.is("[recent a]", "ZRANGE", "zpe:cancels", 0, -1)
		r.keepsFor("zpe:cancels", time.Minute)
	})
}

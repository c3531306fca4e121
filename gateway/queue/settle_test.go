package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
)

// strangers are reports that no lease covers.
func (r *rig) strangers(a, b queue.Grant) map[string]func() error {
	finish := func(c queue.Caller, id jobs.ID, lease string) func() error {
		return func() error {
			_, late, err := r.Finish(r.ctx(), c, id, lease, queue.Result{JSON: `{"stranger":1}`})
			if late {
				return errors.New("kept as a late result")
			}
			return err
		}
	}
	fail := func(c queue.Caller, id jobs.ID, lease string) func() error {
		return func() error {
			_, err := r.Queue.Fail(r.ctx(), c, id, lease, queue.Failure{Code: "STRANGE", RetryPolicy: queue.Final})
			return err
		}
	}
	return map[string]func() error{
		"another worker's result":  finish(w2, a.Job, a.LeaseID),
		"another lease's result":   finish(w1, a.Job, b.LeaseID),
		"a guessed lease's result": finish(w1, a.Job, "AAAAAAAAAAAAAAAAAAAAAA"),
		"an empty lease's result":  finish(w1, a.Job, ""),
		"another worker's failure": fail(w2, a.Job, a.LeaseID),
		"another lease's failure":  fail(w1, a.Job, b.LeaseID),
		"a guessed lease's":        fail(w1, a.Job, "AAAAAAAAAAAAAAAAAAAAAA"),
	}
}

func TestZ52ReportNeedsWorkerAndLease(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b")
		a, b := r.lease(w1, "a"), r.lease(w1, "b")
		refused := func(when string) {
			r.Helper()
			before := r.dump()
			for name, report := range r.strangers(a, b) {
				if err := report(); !errors.Is(err, jobs.ErrLeaseLost) {
					r.Errorf("%s, %s: %v", name, when, err)
				}
			}
			if r.dump() != before {
				r.Errorf("a refused report wrote something, %s", when)
			}
		}
		refused("while it runs")
		must(r.finish(w1, a, `{"zpe":1}`))(r)
		refused("when it has finished")
		r.fail(w1, b, queue.Retry)
		if _, _, err := r.Finish(r.ctx(), w1, "b", b.LeaseID, queue.Result{JSON: "{}"}); !errors.Is(err, jobs.ErrLeaseLost) {
			r.Errorf("a result after the failure: %v", err)
		}
		if _, _, err := r.Finish(r.ctx(), w1, "none", b.LeaseID, queue.Result{JSON: "{}"}); !errors.Is(err, queue.ErrNoJob) {
			r.Errorf("a result of no job: %v", err)
		}
	})
}

func TestZ53NobodySeesFinishedWithoutResult(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	const n = 150
	var looked atomic.Int64
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			id := jobs.ID(fmt.Sprint("j", i%n))
			before, _ := r.Job(r.ctx(), id)
			_, err := r.Result(r.ctx(), id)
			if before.Status == "finished" {
				looked.Add(1)
				if err != nil {
					r.Errorf("%s is finished, but: %v", id, err)
				}
			}
		}
	}()
	for i := range n {
		id := jobs.ID(fmt.Sprint("j", i))
		r.submit(id)
		if _, err := r.finish(w1, r.lease(w1, id), `{}`); err != nil {
			r.Error(err)
		}
		r.is("0", "EXISTS", "zpe:lease:"+string(id))
	}
	for deadline := time.Now().Add(time.Minute); looked.Load() == 0 && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	close(stop)
	<-stopped
	r.is("0", "ZCARD", "zpe:lease:index")
	if looked.Load() == 0 {
		r.Error("no script looked at a finished job")
	}
}

func TestZ54SameResultAgainIsFineAnotherIsNot(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		g := r.lease(w1, "a")
		report := func(res queue.Result) (bool, error) {
			rec, _, err := r.Finish(r.ctx(), w1, "a", g.LeaseID, res)
			return rec.Duplicate, err
		}
		first := queue.Result{JSON: `{ "e": 1.0 }`, Summary: "s", Freqs: "f", Meta: `{"timestamp":"1"}`}
		if again, err := report(first); again || err != nil {
			r.Fatal(again, err)
		}
		other := first
		other.Meta = `{"timestamp":"2"}`
		if again, err := report(other); !again || err != nil {
			r.Errorf("the same result with other meta: again=%v, %v", again, err)
		}
		r.is(`{ "e": 1.0 }`, "GET", "zpe:result:a")
		for _, res := range []queue.Result{
			{JSON: "{}", Summary: "s", Freqs: "f"},
			{JSON: first.JSON, Summary: "sf", Freqs: ""},
			{JSON: `{"e":1.0}`, Summary: "s", Freqs: "f"},
		} {
			if _, err := report(res); !errors.Is(err, queue.ErrFinished) {
				r.Errorf("another result %+v: %v", res, err)
			}
		}
		r.is(`{ "e": 1.0 }`, "GET", "zpe:result:a")
	})
}

func TestZ57LateResultIsKeptAside(t *testing.T) {
	t.Parallel()
	for _, now := range []string{"delayed", "queued", "leased", "dead", "canceled"} {
		t.Run(now, func(t *testing.T) {
			onBoth(t, func(r *rig) {
				if now == "dead" {
					r.MaxRetries = 0
				}
				r.submit("a", "b")
				g, b := r.lease(w1, "a"), r.lease(w1, "b")
				r.clock.pass(r.LeaseTTL + r.Skew)
				must(r.Reap(r.ctx()))(r)
				var second queue.Grant
				switch now {
				case "queued":
					r.clock.pass(time.Minute)
					must(r.Promote(r.ctx()))(r)
				case "leased":
					r.clock.pass(time.Minute)
					second = r.lease(w2, "a")
				case "canceled":
					must(r.Cancel(r.ctx(), "a"))(r)
				}
				before := r.dump()
				for name, report := range r.strangers(g, b) {
					if err := report(); !errors.Is(err, jobs.ErrLeaseLost) {
						r.Errorf("%s: %v", name, err)
					}
				}
				if r.dump() != before {
					r.Error("a stranger wrote something")
				}
				if _, err := r.Late(r.ctx(), "a"); !errors.Is(err, queue.ErrNoJob) {
					r.Errorf("a late result of strangers: %v", err)
				}
				if err := r.AcceptLate(r.ctx(), "a"); !errors.Is(err, queue.ErrNoJob) {
					r.Errorf("accepted a late result of strangers: %v", err)
				}
				late, err := r.finish(w1, g, `{"late":1}`)
				if !late || !errors.Is(err, jobs.ErrLeaseLost) {
					r.Fatalf("late=%v, %v", late, err)
				}
				r.keepsFor("zpe:late:a", 24*time.Hour)
				kept := must(r.Late(r.ctx(), "a"))(r)
				if kept.JSON != `{"late":1}` || kept.Worker != "w1" || kept.LeaseID != g.LeaseID || kept.Summary != "s" || kept.Freqs != "f" {
					r.Errorf("%+v", kept)
				}
				r.rdb.PExpire(r.ctx(), "zpe:status:a", time.Hour)
				if err := r.AcceptLate(r.ctx(), "a"); err != nil {
					r.Fatal(err)
				}
				r.status("a", "finished")
				for _, k := range []string{"result", "summary", "freqs", "status"} {
					r.keepsFor("zpe:"+k+":a", week)
				}
				if res := must(r.Result(r.ctx(), "a"))(r); res != `{"late":1}` {
					r.Errorf("result %s", res)
				}
				if now == "leased" {
					if late, err := r.finish(w2, second, `{}`); late || !errors.Is(err, jobs.ErrLeaseLost) {
						r.Errorf("who ran it then: late=%v, %v", late, err)
					}
				}
				if rec, _, err := r.Finish(r.ctx(), w1, "a", g.LeaseID, queue.Result{JSON: `{"late":1}`, Summary: "s", Freqs: "f"}); !rec.Duplicate || err != nil {
					r.Errorf("the late worker asks again: %+v, %v", rec, err)
				}
				r.clock.pass(time.Minute)
				if g, err := r.Lease(r.ctx(), w2, queue.LeaseRequest{}); g.Job == "a" || err != nil {
					r.Errorf("leased %+v, %v: it has finished", g, err)
				}
				r.is("0", "EXISTS", "zpe:late:a", "zpe:payload:a", "zpe:lease:a", "zpe:retry_count:a")
				if strings.Contains(r.do("LRANGE", "zpe:dlq", 0, -1), "a") {
					r.Error("a is still a dead letter")
				}
			})
		})
	}
}

func TestResultOfAJobWhoseStatusWasLostTookNoKnownTime(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		g := r.lease(w1, "a")
		r.do("DEL", "zpe:status:a")
		r.clock.pass(time.Minute)
		rec, late, err := r.Finish(r.ctx(), w1, "a", g.LeaseID, queue.Result{JSON: `{}`})
		if rec != (queue.Recorded{}) || late || err != nil {
			r.Errorf("%+v, late=%v, %v", rec, late, err)
		}
		r.status("a", "finished")
	})
}

func TestZ57LateResultOfAFinishedJobIsRefused(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		g := r.lease(w1, "a")
		r.clock.pass(r.LeaseTTL + r.Skew)
		must(r.Reap(r.ctx()))(r)
		if late, _ := r.finish(w1, g, `{"late":1}`); !late {
			r.Fatal("not late")
		}
		r.clock.pass(time.Minute)
		must(r.finish(w2, r.lease(w2, "a"), `{"good":1}`))(r)
		if late, err := r.finish(w1, g, `{"late":1}`); late || !errors.Is(err, jobs.ErrLeaseLost) {
			r.Errorf("late=%v, %v", late, err)
		}
		if err := r.AcceptLate(r.ctx(), "a"); err == nil {
			r.Error("accepted over a result")
		}
		r.is(`{"good":1}`, "GET", "zpe:result:a")
	})
}

func TestZ59RepeatedFailureCountsOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		g := r.lease(w1, "a")
		first := r.fail(w1, g, queue.Retry)
		for range 3 {
			again := r.fail(w1, g, queue.Retry)
			if !again.Duplicate || again.Requeued != first.Requeued || again.Retries != 1 {
				r.Errorf("%+v, first %+v", again, first)
			}
			r.clock.pass(30 * time.Second)
			must(r.Promote(r.ctx()))(r)
		}
		r.lease(w2, "a") // runs again meanwhile
		if again := r.fail(w1, g, queue.Retry); again.Retries != 1 {
			r.Errorf("%+v", again)
		}
		r.status("a", "started")
		_, err := r.Queue.Fail(r.ctx(), w1, "a", g.LeaseID, queue.Failure{Code: "OTHER", RetryPolicy: queue.Retry})
		if !errors.Is(err, queue.ErrReported) {
			r.Errorf("other content: %v", err)
		}
		r.keepsFor("zpe:failed_ack:a:"+g.LeaseID, 24*time.Hour)
	})
}

func TestZ60Z61FailuresRunAgainThreeTimesThenDie(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"failure", "expiry"} {
		t.Run(how, func(t *testing.T) {
			onBoth(t, func(r *rig) {
				r.submit("a")
				for n, delay := range []time.Duration{20 * time.Second, 40 * time.Second, 80 * time.Second} {
					g := r.lease(w1, "a")
					if g.Retries != n {
						r.Errorf("run %d: %d retries", n, g.Retries)
					}
					if how == "failure" {
						if f := r.fail(w1, g, queue.Retry); !f.Requeued || f.Dead || f.Retries != n+1 {
							r.Errorf("run %d: %+v", n, f)
						}
					} else {
						r.clock.pass(r.LeaseTTL + r.Skew)
						if reaped := must(r.Reap(r.ctx()))(r); len(reaped) != 1 || reaped[0].Became != "delayed" {
							r.Errorf("run %d: %+v", n, reaped)
						}
					}
					r.is("0", "EXISTS", "zpe:lease:a")
					r.is("0", "ZCARD", "zpe:lease:index")
					if j := r.status("a", "queued"); j.Detail == "" {
						r.Error("no detail")
					}
					r.sound()
					r.clock.pass(delay - time.Millisecond)
					r.lease(w1, "") // 1 ms early
					r.clock.pass(time.Millisecond)
				}
				g := r.lease(w1, "a")
				if how == "failure" {
					if f := r.fail(w1, g, queue.Retry); f.Requeued || !f.Dead || f.Retries != 4 {
						r.Errorf("%+v", f)
					}
				} else {
					r.clock.pass(r.LeaseTTL + r.Skew)
					must(r.Reap(r.ctx()))(r)
				}
				r.status("a", "failed")
				r.is("[a]", "LRANGE", "zpe:dlq", 0, -1)
				r.sound()
			})
		})
	}
}

func TestZ61RetryDelay(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{-1: 10, 0: 10, 1: 20, 2: 40, 3: 80, 4: 160, 5: 300, 6: 300, 60: 300, 1 << 40: 300} {
		if got := queue.RetryDelay(n); got != time.Duration(want)*time.Second {
			t.Errorf("after failure %d: %v, want %d s", n, got, want)
		}
	}
}

func TestZ62FinalFailureIsDeadAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		if f := r.fail(w1, r.lease(w1, "a"), queue.Final); f.Requeued || !f.Dead {
			r.Errorf("%+v", f)
		}
		if j := r.status("a", "failed"); j.ErrorCode != "X" || j.ErrorMessage != "y" || j.Detail != "X: y" {
			r.Errorf("%+v", j)
		}
		r.sound()
	})
}

func TestZ63CanceledJobEndsAndIsNoDeadLetter(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("runs", "waits", "delayed", "silent")
		g := r.lease(w1, "runs")
		must(r.Cancel(r.ctx(), "waits"))(r)
		r.status("waits", "failed") // at once
		r.fail(w1, r.lease(w1, "delayed"), queue.Retry)
		r.lease(w2, "silent")
		for _, id := range []jobs.ID{"runs", "delayed", "silent"} {
			must(r.Cancel(r.ctx(), id))(r)
		}
		if f := r.fail(w1, g, queue.Retry); f.Requeued || f.Dead {
			r.Errorf("%+v", f)
		}
		r.clock.pass(r.LeaseTTL + r.Skew)
		if reaped := must(r.Reap(r.ctx()))(r); len(reaped) != 1 || reaped[0].Became != "canceled" {
			r.Errorf("%+v", reaped)
		}
		for _, id := range []jobs.ID{"runs", "waits", "delayed", "silent"} {
			if j := r.status(id, "failed"); j.Detail != "canceled" {
				r.Errorf("%+v", j)
			}
			if ended, err := r.Cancel(r.ctx(), id); ended != "canceled" || err != nil {
				r.Errorf("cancel again: %q, %v", ended, err)
			}
		}
		r.lease(w1, "")
		r.is("0", "EXISTS", "zpe:dlq", "zpe:delay", "zpe:queue", "zpe:lease:index")
		r.sound()
	})
}

func TestZ81StoppingWorkerGivesTheJobBackUncounted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b")
		for range 100 {
			if f := r.fail(w1, r.lease(w1, "a"), queue.ReturnUncounted); !f.Requeued || f.Retries != 0 {
				r.Fatalf("%+v", f)
			}
		}
		if f := r.fail(w1, r.lease(w1, "a"), queue.ReturnUncounted); f.Retries != 1 {
			r.Errorf("the 101st time: %+v", f)
		}
		r.lease(w1, "b") // a is delayed now
		r.sound()
	})
}

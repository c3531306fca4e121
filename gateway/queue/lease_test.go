package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestZ41EightWorkersShareJobsWithoutDoubleAndWithoutLoss(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		const n = 200
		for i := range n {
			r.submit(jobs.ID(fmt.Sprintf("j%03d", i)))
		}
		var mu sync.Mutex
		ran := map[jobs.ID]int{}
		leases := map[string]bool{}
		var wg sync.WaitGroup
		for i := range 8 {
			c := queue.Caller{Worker: fmt.Sprintf("w%d", i)}
			wg.Go(func() {
				for {
					g, err := r.Lease(r.ctx(), c, queue.LeaseRequest{Renews: true})
					if err != nil || g.Job == "" {
						if err != nil {
							r.Error(err)
						}
						return
					}
					mu.Lock()
					ran[g.Job]++
					if leases[g.LeaseID] || len(g.LeaseID) != 22 {
						r.Errorf("lease id %q came twice, or is not 128 bits in base64url", g.LeaseID)
					}
					leases[g.LeaseID] = true
					mu.Unlock()
					if _, err := r.finish(c, g, `{}`); err != nil {
						r.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if len(ran) != n {
			r.Errorf("%d jobs ran, want %d", len(ran), n)
		}
		for id, times := range ran {
			if times != 1 {
				r.Errorf("job %s ran %d times", id, times)
			}
		}
		if s := must(r.Stats(r.ctx()))(r); s != (queue.Stats{}) {
			r.Errorf("left over: %+v", s)
		}
		r.sound()
	})
}

func TestZ42RepeatedRequestGetsItsLeaseAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b", "c")
		ask := queue.LeaseRequest{Renews: true, RequestID: "r1"}
		lease := func(c queue.Caller, want jobs.ID) queue.Grant {
			r.Helper()
			g, err := r.Lease(r.ctx(), c, ask)
			if err != nil || g.Job != want {
				r.Fatalf("leased %q, %v; want %q", g.Job, err, want)
			}
			return g
		}
		first := lease(w1, "a")
		off := false
		must(r.SetOps(r.ctx(), nil, &off))(r) // hands out no new job, but this is none
		r.clock.pass(10 * time.Second)
		again := lease(w1, "a")
		if again.LeaseID != first.LeaseID || again.Payload != first.Payload || !again.Until.Equal(first.Until) {
			r.Errorf("again %+v, first %+v", again, first)
		}
		if again.TTL != first.TTL-10*time.Second {
			r.Errorf("after 10 s the lease lasts for %v, first %v", again.TTL, first.TTL)
		}
		on := true
		must(r.SetOps(r.ctx(), nil, &on))(r)
		lease(w2, "b") // another worker's request of the same name
		must(r.finish(w1, again, `{}`))(r)
		lease(w1, "c") // the lease has ended, so it is a new request
		r.clock.pass(r.LeaseTTL)
		lease(w1, "") // over, though not reaped
	})
}

// A client of Redis sends a command again when the connection breaks before the
// answer. Nothing may happen twice then.
func TestZ42CallWhoseAnswerWasLostCountsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	enroll := r.enroll()
	twice := &sendTwice{}
	r.rdb.AddHook(twice)
	r.submit("a", "b")
	r.is("2", "LLEN", "zpe:queue")
	g := r.lease(w1, "a")
	r.is("1", "ZCARD", "zpe:lease:index")
	if f := r.fail(w1, g, queue.Retry); f.Retries != 1 || !f.Requeued {
		r.Errorf("%+v", f)
	}
	g = r.lease(w1, "b")
	if _, err := r.finish(w1, g, `{}`); err != nil {
		r.Error(err)
	}
	if _, err := r.Register(r.ctx(), queue.Registration{EnrollToken: enroll}); err != nil {
		r.Error(err)
	}
	r.submit("c")
	if _, err := r.Cancel(r.ctx(), "c"); err != nil {
		r.Error(err)
	}
	r.status("c", "failed")
	if twice.n < 7 {
		r.Errorf("%d scripts were sent twice", twice.n)
	}
}

type sendTwice struct{ n int }

func (*sendTwice) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *sendTwice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "eval" || cmd.Name() == "evalsha" {
			if err := next(ctx, cmd); err == nil {
				s.n++
			}
		}
		return next(ctx, cmd)
	}
}

func (*sendTwice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

type countCommands struct{ n atomic.Int32 }

func (*countCommands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *countCommands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *countCommands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}

func TestZ43StaleEntriesArePassedOver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b", "done", "canceled", "delayed", "dead")
		r.do("LPUSH", "zpe:queue", "a", "a", "a") // while it waits
		leased := r.lease(w1, "a")
		r.lease(w1, "b")
		must(r.finish(w1, r.lease(w1, "done"), `{}`))(r)
		must(r.Cancel(r.ctx(), "canceled"))(r)
		r.fail(w1, r.lease(w1, "delayed"), queue.Retry)
		r.fail(w1, r.lease(w1, "dead"), queue.Final)
		for range 20 { // more than one script looks at
			r.do("LPUSH", "zpe:queue", "a", "done", "canceled", "delayed", "dead")
		}
		r.submit("new")
		r.lease(w2, "new")
		r.lease(w2, "")
		r.status("done", "finished")
		r.status("canceled", "failed")
		r.status("dead", "failed")
		r.is("1", "LLEN", "zpe:dlq")
		r.is("[delayed]", "ZRANGE", "zpe:delay", 0, -1)
		if _, err := r.finish(w1, leased, `{}`); err != nil {
			r.Error(err)
		}
		r.sound()
	})
}

func TestZ44LeaseIDDecidesNotTheClock(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b")
		a, b := r.lease(w1, "a"), r.lease(w1, "b")
		r.clock.pass(r.LeaseTTL + time.Hour) // over, but not reaped
		if _, err := r.finish(w1, a, `{}`); err != nil {
			r.Errorf("a result between the end and the reaper: %v", err)
		}
		if _, err := r.Extend(r.ctx(), w1, "b", b.LeaseID, queue.Beat{}); err != nil {
			r.Errorf("an extension between the end and the reaper: %v", err)
		}
		if reaped := must(r.Reap(r.ctx()))(r); len(reaped) != 0 {
			r.Errorf("reaped %+v", reaped)
		}
	})
}

func TestZ45ExtensionNeedsTheLease(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b")
		a, b := r.lease(w1, "a"), r.lease(w1, "b")
		before := r.dump()
		for _, tt := range []struct {
			name  string
			c     queue.Caller
			job   jobs.ID
			lease string
			want  error
		}{
			{"another worker", w2, "a", a.LeaseID, jobs.ErrLeaseLost},
			{"another lease", w1, "a", b.LeaseID, jobs.ErrLeaseLost},
			{"no lease", w1, "a", "", jobs.ErrLeaseLost},
			{"no job", w1, "none", a.LeaseID, queue.ErrNoJob},
		} {
			if _, err := r.Extend(r.ctx(), tt.c, tt.job, tt.lease, queue.Beat{Message: "x"}); !errors.Is(err, tt.want) {
				r.Errorf("%s: %v", tt.name, err)
			}
		}
		if r.dump() != before {
			r.Error("a refused extension wrote something")
		}
		must(r.Extend(r.ctx(), w1, "a", a.LeaseID, queue.Beat{Message: "scf 3", Done: 3, Total: 7}))(r)
		if j := r.status("a", "started"); j.Detail != "scf 3" || j.Done != 3 || j.Total != 7 {
			r.Errorf("%+v", j)
		}
		must(r.Cancel(r.ctx(), "a"))(r)
		if e, err := r.Extend(r.ctx(), w1, "a", a.LeaseID, queue.Beat{}); !e.Cancel || err != nil {
			r.Errorf("%+v, %v", e, err)
		}
		if j := r.status("a", "started"); j.Detail != "scf 3" {
			r.Errorf("an empty message replaced %q by %q", "scf 3", j.Detail)
		}
	})
}

func TestZ45ExtensionIsNoShorterThanTheLeaseThatWasGivenOut(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]queue.LeaseRequest{"under the rules of before": {Renews: true}, "by a worker that did not say it would": {}} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(r *rig) {
				r.submit("a")
				g := must(r.Lease(r.ctx(), w1, ask))(r)
				r.LeaseTTL = 30 * time.Second // the gateway was restarted
				for range 3 {
					r.clock.pass(g.TTL / 3)
					e, err := r.Extend(r.ctx(), w1, "a", g.LeaseID, queue.Beat{})
					if errors.Is(err, queue.ErrJobTimeout) {
						break
					}
					if err != nil || !e.Until.Equal(r.clock.Now().Add(g.TTL)) || e.TTL != g.TTL {
						r.Fatalf("extended %+v, %v; want %s from now", e, err, g.TTL)
					}
					r.sound()
					r.clock.pass(time.Minute)
					if reaped := must(r.Reap(r.ctx()))(r); len(reaped) != 0 {
						r.Fatalf("taken back between two beats: %+v", reaped)
					}
				}
				r.is("1", "EXISTS", "zpe:lease:a")
			})
		})
	}
}

func TestZ45ExtensionBringsALostStatusBack(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		g := r.lease(w1, "a")
		r.do("DEL", "zpe:status:a")
		must(r.Extend(r.ctx(), w1, "a", g.LeaseID, queue.Beat{}))(r)
		r.status("a", "started")
		r.sound()
	})
}

func TestZ47JobWhoseStatusWasLostTimesOut(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		g := r.lease(w1, "a")
		r.do("DEL", "zpe:status:a")
		var err error
		beats := 0
		for ; err == nil && beats < 500; beats++ {
			_, err = r.Extend(r.ctx(), w1, "a", g.LeaseID, queue.Beat{})
			r.clock.pass(r.LeaseTTL / 3)
		}
		// The first beat counts as the first lease.
		if want := int(r.JobTimeout/(r.LeaseTTL/3)) + 1; !errors.Is(err, queue.ErrJobTimeout) || beats != want {
			r.Errorf("beat %d: %v, want beat %d to be the first after the timeout", beats, err, want)
		}
	})
}

func TestZ46WorkerThatDoesNotExtendGetsALongLease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.submit("a", "b")
	g, err := r.Lease(r.ctx(), w1, queue.LeaseRequest{})
	if err != nil || g.TTL != 24*time.Hour || !g.Until.Equal(r.clock.Now().Add(24*time.Hour)) {
		r.Errorf("%+v, %v", g, err)
	}
	if g := r.lease(w1, "b"); g.TTL != 600*time.Second {
		r.Errorf("%+v", g)
	}
}

func TestZ47JobTimeoutCountsFromTheFirstLease(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"reaped", "reported"} {
		t.Run(then, func(t *testing.T) {
			onBoth(t, func(r *rig) {
				r.submit("a")
				g := r.lease(w1, "a")
				r.clock.pass(time.Hour)
				r.fail(w1, g, queue.Retry)
				r.clock.pass(time.Minute)
				g = r.lease(w1, "a")
				extend := func() error {
					_, err := r.Extend(r.ctx(), w1, "a", g.LeaseID, queue.Beat{})
					return err
				}
				r.clock.pass(23*time.Hour - time.Minute - time.Second)
				if err := extend(); err != nil {
					r.Fatalf("a second before the timeout: %v", err)
				}
				r.clock.pass(time.Second)
				if err := extend(); !errors.Is(err, queue.ErrJobTimeout) || !errors.Is(err, jobs.ErrLeaseLost) {
					r.Fatalf("at the timeout: %v", err)
				}
				r.sound()
				if then == "reaped" {
					if reaped := must(r.Reap(r.ctx()))(r); len(reaped) != 1 || reaped[0].Became != "dead" {
						r.Errorf("reaped %+v", reaped)
					}
				} else if f := r.fail(w1, g, queue.ReturnUncounted); !f.Dead {
					r.Errorf("%+v", f)
				}
				if j := r.status("a", "failed"); !strings.Contains(j.Detail, "job timeout") {
					r.Errorf("%+v", j)
				}
				if err := r.Requeue(r.ctx(), "a"); err != nil {
					r.Fatal(err)
				}
				g = r.lease(w1, "a")
				if err := extend(); err != nil || g.Retries != 0 {
					r.Errorf("after requeue: %v, %+v", err, g)
				}
			})
		})
	}
}

func TestZ49SwitchesStopSubmissionAndLeases(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b")
		g := r.lease(w1, "a")
		off, on := false, true
		if ops := must(r.SetOps(r.ctx(), &off, &off))(r); ops.Submission || ops.Dequeue {
			r.Errorf("%+v", ops)
		}
		r.lease(w1, "")
		if _, err := r.Submit(r.ctx(), "c", []byte("{}"), ""); !errors.Is(err, queue.ErrSubmissionOff) {
			r.Error(err)
		}
		if _, err := r.finish(w1, g, `{}`); err != nil {
			r.Error(err)
		}
		if ops := must(r.SetOps(r.ctx(), nil, &on))(r); ops.Submission || !ops.Dequeue {
			r.Errorf("%+v", ops)
		}
		r.lease(w1, "b")
	})
}

func TestZ48EveryCallOfAWorkerIsOneCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.worker()
	var a, b queue.Grant
	steps := []struct {
		name string
		call func()
	}{
		{"submit", func() { r.submit("a") }},
		{"submit", func() { r.submit("b") }},
		{"lease", func() { a = r.lease(c, "a") }},
		{"lease", func() { b = r.lease(c, "b") }},
		{"extend", func() { _, _ = r.Extend(r.ctx(), c, "a", a.LeaseID, queue.Beat{}) }},
		{"finish", func() { _, _ = r.finish(c, a, `{}`) }},
		{"fail", func() { r.fail(c, b, queue.Final) }},
		{"empty lease", func() { r.lease(c, "") }},
		{"authorize", func() { _, _ = r.Authorize(r.ctx(), c) }},
		{"reap", func() { _, _ = r.Reap(r.ctx()) }},
		{"promote", func() { _, _ = r.Promote(r.ctx()) }},
	}
	for _, s := range steps { // loads the scripts
		s.call()
	}
	r.do("DEL", "zpe:status:a", "zpe:status:b", "zpe:dlq")
	counter := &countCommands{}
	r.rdb.AddHook(counter)
	for _, s := range steps {
		counter.n.Store(0)
		s.call()
		if n := counter.n.Load(); n != 1 {
			r.Errorf("%s sends %d commands", s.name, n)
		}
	}
}

func TestScriptsAreSentAgainToAServerThatForgotThem(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		forget := func() { r.is("OK", "SCRIPT", "FLUSH") }
		for range 2 {
			forget()
			r.submit("a")
			forget()
			g := r.lease(w1, "a")
			forget()
			must(r.Extend(r.ctx(), w1, "a", g.LeaseID, queue.Beat{}))(r)
			forget()
			must(r.finish(w1, g, `{}`))(r)
			r.do("DEL", "zpe:status:a")
		}
	})
}

func TestZ43LeasedJobWithoutStatusIsNotRunTwice(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		g := r.lease(w1, "a")
		r.do("DEL", "zpe:status:a")
		r.do("LPUSH", "zpe:queue", "a")
		r.lease(w2, "")
		if _, err := r.finish(w1, g, `{}`); err != nil {
			r.Error(err)
		}
	})
}

func TestWorkerHoldsNoMoreLeasesThanItsShare(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.MaxLeases = 3
		r.submit("a", "b", "c", "d", "e", "f", "g")
		full := func(when string) {
			r.Helper()
			if g, err := r.Lease(r.ctx(), w1, queue.LeaseRequest{RequestID: "more", Renews: true}); !errors.Is(err, queue.ErrManyLeases) {
				r.Errorf("%s it was given %q, %v", when, g.Job, err)
			}
		}
		a := r.lease(w1, "a")
		b := must(r.Lease(r.ctx(), w1, queue.LeaseRequest{RequestID: "b", Renews: true}))(r)
		r.lease(w1, "c")
		full("with three leases")
		if again := must(r.Lease(r.ctx(), w1, queue.LeaseRequest{RequestID: "b", Renews: true}))(r); again.LeaseID != b.LeaseID {
			r.Errorf("the same request got %+v, want its lease again", again)
		}
		r.lease(w2, "d") // others are none of its concern
		r.fail(w1, a, queue.Final)
		r.lease(w1, "e")
		full("with three leases again")
		r.clock.pass(11 * time.Minute)
		must(r.Reap(r.ctx()))(r)
		r.clock.pass(time.Minute) // until they may run again
		for range 3 {
			if g := must(r.Lease(r.ctx(), w1, queue.LeaseRequest{Renews: true}))(r); g.Job == "" {
				r.Error("no lease once those before were taken back")
			}
		}
		full("with three others")
		r.sound()
	})
}

package queue_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
)

// enroll returns a token that lets one worker register.
func (r *rig) enroll() string {
	r.Helper()
	token, _, err := r.Enroll(r.ctx(), "l", time.Hour)
	if err != nil {
		r.Fatal(err)
	}
	return token
}

// worker registers a worker.
func (r *rig) worker() queue.Caller {
	r.Helper()
	reg := must(r.Register(r.ctx(), queue.Registration{EnrollToken: r.enroll()}))(r)
	return queue.Caller{TokenHash: queue.HashToken(reg.Token)}
}

func TestZ32EnrollTokenRegistersOneOfFiftyAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		enroll := r.enroll()
		var good atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				_, err := r.Register(r.ctx(), queue.Registration{EnrollToken: enroll})
				switch {
				case err == nil:
					good.Add(1)
				case !errors.Is(err, queue.ErrEnrollToken):
					r.Error(err)
				}
			})
		}
		wg.Wait()
		if good.Load() != 1 {
			r.Errorf("%d workers registered with one token", good.Load())
		}
		if n := len(must(r.rdb.Keys(r.ctx(), "zpe:token:*").Result())(r)); n != 1 {
			r.Errorf("%d token records", n)
		}
	})
}

func TestZ32EnrollTokenExpires(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		enroll, until, err := r.Enroll(r.ctx(), "l", time.Hour)
		if err != nil || !until.Equal(r.clock.Now().Add(time.Hour)) {
			r.Fatal(until, err)
		}
		r.clock.pass(time.Hour)
		for _, token := range []string{enroll, "zpe_nobody", ""} {
			if _, err := r.Register(r.ctx(), queue.Registration{EnrollToken: token}); !errors.Is(err, queue.ErrEnrollToken) {
				r.Errorf("register with %q: %v", token, err)
			}
		}
	})
}

func TestZ33TokensAreLongRandomAndPrefixed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	seen := map[string]bool{}
	for range 50 {
		enroll := r.enroll()
		reg := must(r.Register(r.ctx(), queue.Registration{EnrollToken: enroll}))(r)
		if !strings.HasPrefix(reg.Token, "zpw_") || len(reg.Token) != 4+43 || !strings.HasPrefix(enroll, "zpe_") || len(enroll) != 4+43 {
			r.Fatalf("token %q, enroll token %q: not 32 bytes in base64url behind a prefix", reg.Token, enroll)
		}
		if seen[reg.Token] || seen[enroll] || seen[reg.Worker] {
			r.Fatal("a random value came twice")
		}
		seen[reg.Token], seen[enroll], seen[reg.Worker] = true, true, true
	}
}

func TestZ34TokenHoldsSevenDays(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		c := r.worker()
		r.clock.pass(week - time.Second)
		must(r.Authorize(r.ctx(), c))(r)
		r.clock.pass(2 * time.Second)
		if _, err := r.Authorize(r.ctx(), c); !errors.Is(err, queue.ErrTokenExpired) {
			r.Errorf("after 7 d 1 s: %v", err)
		}
		if _, err := r.Authorize(r.ctx(), queue.Caller{TokenHash: queue.HashToken("zpw_x")}); !errors.Is(err, queue.ErrTokenUnknown) {
			r.Errorf("unknown token: %v", err)
		}
	})
}

// calls is every method that a worker causes, under a lease that no worker holds.
func (r *rig) calls(c queue.Caller) map[string]error {
	_, lease := r.Lease(r.ctx(), c, queue.LeaseRequest{})
	_, extend := r.Extend(r.ctx(), c, "a", "l", queue.Beat{})
	_, _, finish := r.Finish(r.ctx(), c, "a", "l", queue.Result{JSON: "{}"})
	_, fail := r.Queue.Fail(r.ctx(), c, "a", "l", queue.Failure{RetryPolicy: queue.Retry})
	_, auth := r.Authorize(r.ctx(), c)
	return map[string]error{"lease": lease, "extend": extend, "finish": finish, "fail": fail, "authorize": auth}
}

func TestZ02Z35EveryWorkersCallChecksTheToken(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		revoked, expired := r.worker(), r.worker()
		must(r.Revoke(r.ctx(), must(r.Authorize(r.ctx(), revoked))(r)))(r)
		r.clock.pass(week + time.Second) // revoked comes before expired
		good := r.worker()
		other := good
		other.Claimed = "w-somebody-else"
		for _, tt := range []struct {
			name string
			c    queue.Caller
			want error
		}{
			{"revoked", revoked, queue.ErrTokenRevoked},
			{"expired", expired, queue.ErrTokenExpired},
			{"unknown", queue.Caller{TokenHash: queue.HashToken("?")}, queue.ErrTokenUnknown},
			{"nobody", queue.Caller{}, queue.ErrTokenUnknown},
			{"another worker's name", other, queue.ErrOtherWorker},
		} {
			for call, err := range r.calls(tt.c) {
				if !errors.Is(err, tt.want) {
					r.Errorf("%s, %s: %v, want %v", call, tt.name, err, tt.want)
				}
			}
		}
		r.status("a", "queued")
		good.Claimed = must(r.Authorize(r.ctx(), good))(r)
		good.Worker = "ignored" // a token's worker is who the token says
		if g := r.lease(good, "a"); r.status(g.Job, "started").Worker != good.Claimed {
			r.Error("the lease is not the token's worker's")
		}
	})
}

func TestZ36RotationKeepsTheWorkerAndTheOldTokenForAMoment(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		first := must(r.Register(r.ctx(), queue.Registration{EnrollToken: r.enroll(), Name: "bench 3"}))(r)
		second := must(r.Register(r.ctx(), queue.Registration{Token: first.Token}))(r)
		if second.Worker != first.Worker || second.Name != "bench 3" || second.Token == first.Token {
			r.Fatalf("rotation made %+v of %+v", second, first)
		}
		old := queue.Caller{TokenHash: queue.HashToken(first.Token)}
		r.clock.pass(10*time.Minute - time.Second)
		must(r.Authorize(r.ctx(), old))(r)
		r.clock.pass(2 * time.Second)
		if _, err := r.Authorize(r.ctx(), old); !errors.Is(err, queue.ErrTokenExpired) {
			r.Errorf("the old token after 10 min: %v", err)
		}
		if _, err := r.Register(r.ctx(), queue.Registration{Token: first.Token}); !errors.Is(err, queue.ErrTokenExpired) {
			r.Errorf("rotation with the old token: %v", err)
		}
		if w := must(r.Authorize(r.ctx(), queue.Caller{TokenHash: queue.HashToken(second.Token)}))(r); w != first.Worker {
			r.Errorf("the new token is worker %s's", w)
		}
	})
}

func TestZ36RotationDoesNotMakeAnOldTokenLastLonger(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		first := must(r.Register(r.ctx(), queue.Registration{EnrollToken: r.enroll()}))(r)
		r.clock.pass(week - time.Minute)
		must(r.Register(r.ctx(), queue.Registration{Token: first.Token}))(r)
		r.clock.pass(time.Minute)
		if _, err := r.Authorize(r.ctx(), queue.Caller{TokenHash: queue.HashToken(first.Token)}); !errors.Is(err, queue.ErrTokenExpired) {
			r.Errorf("the old token after its own end: %v", err)
		}
	})
}

func TestZ36WorkerThatRenewsWithoutEndHasABoundedNumberOfTokens(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		first := must(r.Register(r.ctx(), queue.Registration{EnrollToken: r.enroll()}))(r)
		last := first
		for range 200 {
			r.clock.pass(10 * time.Millisecond)
			last = must(r.Register(r.ctx(), queue.Registration{Token: first.Token}))(r)
		}
		const most = 64
		r.is(strconv.Itoa(most), "SCARD", "zpe:worker_tokens:"+first.Worker)
		if n := len(r.rdb.Keys(r.ctx(), "zpe:token:*").Val()); n != most {
			r.Errorf("%d tokens on record, want %d", n, most)
		}
		// The one in use and the one it got last are not among those that go.
		for _, t := range []queue.Registered{first, last} {
			must(r.Authorize(r.ctx(), queue.Caller{TokenHash: queue.HashToken(t.Token)}))(r)
		}
		if n := must(r.Revoke(r.ctx(), first.Worker))(r); n.Tokens != most {
			r.Errorf("revoked %d", n)
		}
	})
}

func TestZ37RevokeTakesAllTokensOfAWorker(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		a := must(r.Register(r.ctx(), queue.Registration{EnrollToken: r.enroll()}))(r)
		b := must(r.Register(r.ctx(), queue.Registration{Token: a.Token}))(r)
		bystander := r.worker()
		if n := must(r.Revoke(r.ctx(), a.Worker))(r); n.Tokens != 2 {
			r.Errorf("revoked %+v, want 2 tokens", n)
		}
		for _, token := range []string{a.Token, b.Token} {
			if _, err := r.Authorize(r.ctx(), queue.Caller{TokenHash: queue.HashToken(token)}); !errors.Is(err, queue.ErrTokenRevoked) {
				r.Error(err)
			}
			if r.do("HGET", "zpe:token:"+queue.HashToken(token), "revoked_at") == "" {
				r.Error("revoked_at is empty")
			}
			if _, err := r.Register(r.ctx(), queue.Registration{Token: token}); !errors.Is(err, queue.ErrTokenRevoked) {
				r.Errorf("register with a revoked token: %v", err)
			}
		}
		if n := must(r.Revoke(r.ctx(), a.Worker))(r); n.Tokens != 0 {
			r.Errorf("revoked %+v the second time", n)
		}
		if _, err := r.Revoke(r.ctx(), "w-none"); !errors.Is(err, queue.ErrNoWorker) {
			r.Error(err)
		}
		must(r.Authorize(r.ctx(), bystander))(r)
	})
}

func TestZ38RevokeEndsLeasesAndTheReaperRequeues(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b")
		bad, good := r.worker(), r.worker()
		g := r.lease(bad, "a")
		r.lease(good, "b")
		who := must(r.Authorize(r.ctx(), bad))(r)
		if n := must(r.Revoke(r.ctx(), who))(r); n != (queue.Revoked{Tokens: 1, Leases: 1}) {
			r.Errorf("%+v", n)
		}
		if n := must(r.Revoke(r.ctx(), who))(r); n != (queue.Revoked{}) {
			r.Errorf("the second time %+v", n)
		}
		if _, err := r.Extend(r.ctx(), bad, "a", g.LeaseID, queue.Beat{}); !errors.Is(err, queue.ErrTokenRevoked) {
			r.Error(err)
		}
		r.sound() // hash and index were changed together
		reaped := must(r.Reap(r.ctx()))(r)
		if len(reaped) != 1 || reaped[0].Job != "a" || reaped[0].Became != "queued" || reaped[0].Code != "WORKER_REVOKED" || reaped[0].Retries != 0 {
			r.Errorf("reaped %+v, want a at once", reaped)
		}
		if j := r.status("a", "queued"); j.ErrorCode != "WORKER_REVOKED" || j.Detail != "worker "+who+" was revoked" || j.Retries != 0 {
			r.Errorf("%+v", j)
		}
		r.sound()
		r.status("b", "started")
		if _, err := r.finish(bad, g, `{}`); !errors.Is(err, queue.ErrTokenRevoked) || errors.Is(err, jobs.ErrLeaseLost) {
			r.Error(err)
		}
	})
}

func TestZ38RevokeEndsAllLeasesBesideAForeignKey(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b", "c")
		bad := r.worker()
		for _, id := range []jobs.ID{"a", "b", "c"} {
			r.lease(bad, id)
		}
		r.do("SET", "zpe:lease:a", "x") // the first that revocation looks at
		if n, err := r.Revoke(r.ctx(), must(r.Authorize(r.ctx(), bad))(r)); err != nil || n != (queue.Revoked{Tokens: 1, Leases: 2}) {
			r.Errorf("%+v, %v", n, err)
		}
		r.is("1", "HGET", "zpe:lease:c", "revoked")
		r.is("x", "GET", "zpe:lease:a")
	})
}

func TestZ38RevokedJobIsNextAndComesBackUncountedAHundredTimes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b")
		revoked := func() {
			c := r.worker()
			r.lease(c, "a") // and not b: it is at the front
			must(r.Revoke(r.ctx(), must(r.Authorize(r.ctx(), c))(r)))(r)
			must(r.Reap(r.ctx()))(r)
		}
		for range 100 {
			revoked()
		}
		r.is("0", "EXISTS", "zpe:retry_count:a")
		revoked()
		if j := r.status("a", "queued"); j.Retries != 1 || j.ErrorCode != "WORKER_REVOKED" {
			r.Errorf("%+v", j)
		}
		r.is("1", "ZCARD", "zpe:delay")
		r.sound()
	})
}

func TestZ38CanceledJobOfARevokedWorkerEnds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		c := r.worker()
		r.lease(c, "a")
		_, err := r.Cancel(r.ctx(), "a")
		must(r.Revoke(r.ctx(), must(r.Authorize(r.ctx(), c))(r)))(r)
		if reaped := must(r.Reap(r.ctx()))(r); err != nil || len(reaped) != 1 || reaped[0].Became != "canceled" {
			r.Errorf("%v, %+v", err, reaped)
		}
	})
}

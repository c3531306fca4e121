package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// other is a worker that the test plays: it holds a lease and a claim on one job.
type other struct {
	*rig
	lease jobs.Lease
	claim jobs.Claim
}

// another leases a job and claims it, before the worker of the rig is started.
func (r *rig) another() *other {
	r.t.Helper()
	lease, err := r.q.Lease(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := r.status.Store.Claim(r.t.Context(), lease.Job, jobs.ClaimHold, jobs.Claim{Queue: lease.Raw.Queue, Ack: lease.Raw.Ack})
	if err != nil || c.Verdict != jobs.Granted {
		r.t.Fatalf("claim: %+v, %v", c, err)
	}
	return &other{r, lease, c}
}

func (o *other) report() error {
	return o.status.Store.Report(o.t.Context(), o.claim, jobs.ClaimHold, nil, jobs.Lines{})
}

// lives reports every so often for d.
func (o *other) lives(d, every time.Duration) {
	o.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); o.after(every) {
		if err := o.report(); err != nil {
			o.t.Fatalf("at %s: %v\n%s", time.Since(o.q.start), err, o.log)
		}
	}
}

func TestF22JobOfASilentWorkerStartsAgainWithin20Seconds(t *testing.T) {
	inBubble(t, takes(30*time.Second), func(t *testing.T, r *rig) {
		dead := r.another()
		r.worker.Claims = r.status
		r.start()
		dead.lives(61*time.Second, time.Second)
		r.wantTold("")
		r.after(13 * time.Second) // 14 s after its last word
		r.wantTold("")
		r.after(6 * time.Second)
		r.wantTold("return j")
		if e, err := r.status.Get(t.Context(), "j"); err != nil || e.Detail.Attempt != 2 || e.Progress == 0 {
			t.Errorf("attempt %d at %d%%, %v; want the second one under way", e.Detail.Attempt, e.Progress, err)
		}
		if err := dead.report(); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("a worker that wakes up reports: %v, want ErrLeaseLost", err)
		}
		r.after(time.Minute)
		r.wantTold("return j, ack j")
		if e, err := r.status.Get(t.Context(), "j"); err != nil || e.Detail.Attempt != 2 || e.Detail.Crashes != 1 {
			t.Errorf("%d attempts, %d crashes, %v; want 2 and 1", e.Detail.Attempt, e.Detail.Crashes, err)
		}
	}, "j")
}

func TestF22LeaseOfALivingWorkerIsNeverTouched(t *testing.T) {
	inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
		slow := r.another()
		if _, err := r.q.Queue.Extend(t.Context(), []jobs.Lease{slow.lease}, time.Hour); err != nil {
			t.Fatal(err)
		}
		r.worker.Claims = r.status
		r.start()
		slow.lives(30*time.Minute, 14900*time.Millisecond)
		r.wantTold("")
	}, "j")
}

// TestF22FrozenRedisCostsNoAttempt has jobs that go on and jobs that end while Redis
// stands still for longer than their claims hold.
func TestF22FrozenRedisCostsNoAttempt(t *testing.T) {
	var ids []jobs.ID
	for i := range 10 {
		ids = append(ids, jobs.ID(fmt.Sprintf("j%d", i)))
	}
	h := takes(0)
	h.run = func(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		return takes(2*time.Minute+20*time.Second*time.Duration(job.ID[1]-'0')).run(ctx, job, report)
	}
	inBubble(t, h, func(t *testing.T, r *rig) {
		slow := r.another() // the last of the living to find Redis again
		r.worker.Claims, r.worker.Pools = r.status, []Pool{{Slots: 9}}
		r.start()
		slow.lives(100*time.Second, time.Second)
		r.status.freeze(true)
		r.after(time.Minute)
		r.status.freeze(false)
		r.after(18 * time.Second)
		slow.lives(time.Second, time.Second)
		r.after(10 * time.Minute)
		if err := slow.report(); err == nil || strings.Count(r.q.told(), "return") != 1 {
			t.Errorf("told %q; want only the lease of the one that was silent in the end handed back, %v", r.q.told(), err)
		}
		for _, id := range ids[1:] {
			if e, err := r.status.Get(t.Context(), id); err != nil || e.State() != jobs.Succeeded || e.Detail.Attempt != 1 {
				t.Errorf("job %s is %s after %d attempts, %v; want it completed by the first", id, e.Status, e.Detail.Attempt, err)
			}
		}
	}, ids...)
}

// TestF22OutcomesAreOnRecordBeforeOthersLook has jobs that end while Redis is away: no
// report prolongs their claims any more.
func TestF22OutcomesAreOnRecordBeforeOthersLook(t *testing.T) {
	inBubble(t, takes(10*time.Second), func(t *testing.T, r *rig) {
		r.worker.Claims, r.worker.Pools = r.status, []Pool{{Slots: 8}}
		r.start()
		r.after(5 * time.Second)
		r.status.cut(true)
		r.after(5 * time.Minute)
		r.status.cut(false)
		r.after(6 * time.Second) // others begin 20 s after they have found Redis again
		if n := strings.Count(r.q.told(), "ack"); n != 8 {
			t.Errorf("%d of 8 outcomes are on record: %q", n, r.q.told())
		}
	}, "a", "b", "c", "d", "e", "f", "g", "h")
}

func TestF22LeaseThatIsRefusedEndsByItself(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		told string
	}{
		{"refused: left to end", fmt.Errorf("%w: no permission", ErrRefused), "return j, j expired, ack j"},
		{"unavailable: tried again", fmt.Errorf("%w: away", jobs.ErrUnavailable), "return j, return j, ack j"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
				r.another()
				r.q.onReturn = func() error {
					r.q.onReturn = nil
					return tt.err
				}
				r.worker.Claims = r.status
				r.start()
				r.after(20 * time.Minute)
				r.wantTold(tt.told)
			}, "j")
		})
	}
}

// lapsing is a fleet in which a claim has always lapsed.
type lapsing struct {
	asked int           // how often the claim was taken
	ahead time.Duration // of Redis's clock
	early bool          // the lock was asked for before anything could be taken
}

func (l *lapsing) Watch(_ context.Context, ttl time.Duration) (bool, time.Time, time.Duration, error) {
	l.early = ttl > 0
	return true, time.Now().Add(l.ahead), 0, nil
}

func (l *lapsing) Lapsed(context.Context) ([]jobs.Claim, time.Duration, error) {
	return []jobs.Claim{{Job: "j"}}, time.Hour, nil
}

func (l *lapsing) Lapse(_ context.Context, _ jobs.Claim, handed bool) (bool, error) {
	if !handed {
		l.asked++
	}
	return false, nil
}

func TestF22LookerThatStoodStillWaitsForTheLiving(t *testing.T) {
	for name, stop := range map[string]func(*lapsing){
		"the looker itself":        func(*lapsing) { time.Sleep(13 * time.Second) },
		"the clock of Redis leaps": func(l *lapsing) { l.ahead = time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lapsing{}
				w := &watch{claims: l, source: newQueue(), log: slog.New(slog.DiscardHandler), metrics: NewMetrics("test")}
				look := func(n, want int) {
					t.Helper()
					for range n {
						if _, err := w.search(t.Context()); err != nil {
							t.Fatal(err)
						}
						time.Sleep(searchEvery)
					}
					if l.asked != want {
						t.Fatalf("took %d claims, want %d", l.asked, want)
					}
				}
				look(7, 0) // it begins with the wait: 20 s
				look(1, 1)
				stop(l)
				look(7, 1)
				if l.early {
					t.Error("it keeps the lock while it may not hand anything back")
				}
				look(2, 3)
			})
		})
	}
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/jobs"
)

// withPriority gives the rig's worker a second queue, for urgent jobs, whose
// story is told by itself.
func (r *rig) withPriority(ids ...jobs.ID) (urgent *queue) {
	urgent = newQueue(ids...)
	r.worker.Metrics = NewMetrics("test")
	p := &Priority{Urgent: urgent, Normal: r.q, Share: 5, Metrics: r.worker.Metrics}
	r.worker.Source = p
	r.t.Cleanup(func() { _ = p.Close() })
	return urgent
}

func ids(prefix string, n int) []jobs.ID {
	all := make([]jobs.ID, n)
	for i := range all {
		all[i] = jobs.ID(fmt.Sprintf("%s%03d", prefix, i))
	}
	return all
}

// order is what a handler ran, in order.
type order struct {
	mu  sync.Mutex
	ran []string
}

func (o *order) handler(d time.Duration) handler {
	return handler{run: func(ctx context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
		o.mu.Lock()
		o.ran = append(o.ran, string(job.ID))
		o.mu.Unlock()
		return jobs.Result{}, jobs.Sleep(ctx, d)
	}}
}

// letters returns the first letters of what ran, as one word.
func (o *order) letters() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b strings.Builder
	for _, id := range o.ran {
		b.WriteByte(id[0])
	}
	return b.String()
}

func TestF14UrgentJobsRunFirstAndNormalOnesHaveTheirShare(t *testing.T) {
	for _, slots := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d slots", slots), func(t *testing.T) {
			var o order
			inBubble(t, o.handler(time.Second), func(t *testing.T, r *rig) {
				r.worker.Slots = slots
				r.withPriority(ids("u", 200)...)
				r.start()
				r.after(time.Minute)
				got := o.letters()
				if len(got) < 55*slots {
					t.Errorf("%d jobs in a minute, want one a second and slot", len(got))
				}
				if slots == 1 && !strings.HasPrefix(got, "uuuunuuuunuuuun") {
					t.Errorf("ran %s, want every fifth normal", got)
				}
				if share := len(got) / 5; strings.Count(got, "n") < share-1 || strings.Count(got, "n") > share+1 {
					t.Errorf("%d of %d jobs were normal, want one in 5: %s", strings.Count(got, "n"), len(got), got)
				}
			}, ids("n", 200)...)
		})
	}
}

func TestF14EndlessUrgentJobsDoNotStarveASlowNormalSource(t *testing.T) {
	var o order
	inBubble(t, o.handler(time.Second), func(t *testing.T, r *rig) {
		urgent := r.withPriority(ids("u", 200)...)
		r.worker.Source = &Priority{Urgent: urgent, Normal: distant{r.q, 600 * time.Millisecond}, Share: 5, Metrics: r.worker.Metrics}
		r.start()
		r.after(2 * time.Minute)
		if got := o.letters(); strings.Count(got, "n") < len(got)/6 {
			t.Errorf("%d of %d jobs were normal, want about one in 5: %s", strings.Count(got, "n"), len(got), got)
		}
	}, ids("n", 200)...)
}

// distant is a source whose every answer takes a while.
type distant struct {
	*queue
	delay time.Duration
}

func (d distant) Lease(ctx context.Context) (jobs.Lease, error) {
	if err := jobs.Sleep(ctx, d.delay); err != nil {
		return jobs.Lease{}, err
	}
	return d.queue.Lease(ctx)
}

func TestF14OnlyUrgentOrOnlyNormalJobsRunWithoutMuchWaiting(t *testing.T) {
	for _, kind := range []string{"u", "n"} {
		t.Run(kind, func(t *testing.T) {
			var o order
			inBubble(t, o.handler(100*time.Millisecond), func(t *testing.T, r *rig) {
				urgent := r.withPriority()
				r.start()
				r.after(time.Second) // ready
				into := urgent
				if kind == "n" {
					into = r.q
				}
				into.locked(func() {
					for _, id := range ids(kind, 1000) {
						into.add(&item{job: jobs.Job{ID: id, Kind: "test"}})
					}
				})
				r.after(time.Minute)
				// 600 if nothing were lost; head starts cost up to half of a job of this size.
				if n := len(o.letters()); n < 380 {
					t.Errorf("%d jobs in a minute, want 400 or more", n)
				}
			})
		})
	}
}

func TestF14UrgentJobRunsAtOnceOnAnIdleWorker(t *testing.T) {
	var o order
	inBubble(t, o.handler(time.Second), func(t *testing.T, r *rig) {
		urgent := r.withPriority()
		r.start()
		r.after(time.Hour) // it waits at the normal queue, too
		for i := range 12 {
			urgent.locked(func() { urgent.add(&item{job: jobs.Job{ID: jobs.ID(fmt.Sprintf("u%d", i)), Kind: "test"}}) })
			r.after(0)
			if got := o.letters(); len(got) != i+1 {
				t.Fatalf("urgent job %d does not run: %s", i, got)
			}
			r.after(3 * time.Second)
		}
		r.q.locked(func() { r.q.add(&item{job: jobs.Job{ID: "n", Kind: "test"}}) })
		r.after(0)
		if got := o.letters(); !strings.HasSuffix(got, "n") {
			t.Errorf("the normal job does not run: %s", got)
		}
	})
}

func TestF14LeasesFindTheirWayBack(t *testing.T) {
	inBubble(t, takes(25*time.Minute), func(t *testing.T, r *rig) {
		r.worker.Slots = 2
		urgent := r.withPriority("u")
		r.start()
		r.after(time.Hour)
		r.wantTold("ack n")
		if got := urgent.told(); got != "ack u" {
			t.Errorf("the urgent source was told %q, want its ack", got)
		}
		for name, q := range map[string]*queue{"urgent": urgent, "normal": r.q} {
			if n := len(q.extends); n < 4 || n > 5 {
				t.Errorf("%d extensions of the %s job, want one every 300 s", n, name)
			}
		}
		if got := counted(t, r.worker.Metrics, "batchfleet_leases_urgent_total"); got != 1 {
			t.Errorf("%v urgent leases counted, want 1", got)
		}
	}, "n")
}

func TestF14LostLeasesAreNamedAsTheWorkerKnowsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Priority{Urgent: newQueue("u"), Normal: newQueue("n"), Share: 2, Metrics: NewMetrics("test")}
		urgent, err := p.Lease(t.Context())
		if err != nil || urgent.Job.ID != "u" {
			t.Fatal(urgent, err)
		}
		gone := jobs.Lease{ID: "normal/lease9"}
		lost, err := p.Extend(t.Context(), []jobs.Lease{urgent, gone}, time.Minute)
		if err != nil || len(lost) != 1 || lost[gone.ID] == nil {
			t.Errorf("lost %v, %v; want %s alone", lost, err, gone.ID)
		}
		if err := p.Ack(t.Context(), jobs.Lease{ID: "x"}); err == nil {
			t.Error("a lease of neither source was acked")
		}
		if err := p.Nack(t.Context(), urgent, 0); err != nil {
			t.Error(err)
		}
		_ = p.Close()
	})
}

func TestF14OneMissingSubscriptionEndsTheWorkerThoughTheOtherHasJobs(t *testing.T) {
	for _, missing := range []string{"urgent", "normal"} {
		for _, busy := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, the other has jobs: %t", missing, busy), func(t *testing.T) {
				inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
					urgent := r.withPriority()
					broken, whole := urgent, r.q
					if missing == "normal" {
						broken, whole = whole, broken
					}
					broken.down = fmt.Errorf("%w: subscription %s not found", ErrRefused, missing)
					if busy {
						for _, id := range ids("j", 500) {
							whole.waiting = append(whole.waiting, &item{job: jobs.Job{ID: id, Kind: "test"}})
						}
					}
					r.start()
					began := time.Now()
					select {
					case err := <-r.ended:
						if took := time.Since(began); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), missing) || took < 2*time.Minute || took > 3*time.Minute {
							t.Errorf("worker ended after %s with %v, want a refusal of %s after 2 min", took, err, missing)
						}
					case <-time.After(time.Hour):
						t.Error("the worker does not end")
					}
					if len(whole.leased) > 0 {
						t.Errorf("%d leases are held by nobody", len(whole.leased))
					}
				})
			})
		}
	}
}

// startBoth serves an emulator with a normal and an urgent subscription, and a
// Priority over both with the given log.
func startBoth(t *testing.T) (s *emulator.Server, p *Priority, normal, urgent *Publisher) {
	t.Helper()
	s, l := startEmulator(t)
	if err := s.EnsureSubscription(subName+"-urgent", topicName+"-urgent", 600*time.Second); err != nil {
		t.Fatal(err)
	}
	src := source(t, l.Addr())
	src.grace = 5 * time.Second // a reply may be on its way for longer than usual
	normal, urgent = publisher(t, l.Addr()), publisher(t, l.Addr())
	urgent.topic += "-urgent"
	p = &Priority{Urgent: src.Beside(subName + "-urgent"), Normal: src, Share: 5, Metrics: NewMetrics("test")}
	t.Cleanup(func() { _ = p.Close() }) // before the sources are closed
	return s, p, normal, urgent
}

func TestF14NothingIsHeldByNobodyAfterCallsWereCalledOff(t *testing.T) {
	s, p, normal, urgent := startBoth(t)
	const n = 150
	var publishing, slots sync.WaitGroup
	for prefix, to := range map[string]*Publisher{"u": urgent, "n": normal} {
		publishing.Go(func() {
			for _, id := range ids(prefix, n) {
				publish(t, to, jobs.Job{ID: id})
			}
		})
	}
	ctx, stop := context.WithCancel(within(t))
	var mu sync.Mutex
	seen := map[jobs.ID]bool{}
	for range 4 {
		slots.Go(func() {
			for {
				lease, err := p.Lease(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				if err := p.Ack(context.WithoutCancel(ctx), lease); err != nil {
					t.Error(err)
				}
				mu.Lock()
				seen[lease.Job.ID] = true
				if len(seen) == 2*n {
					stop()
				}
				mu.Unlock()
			}
		})
	}
	publishing.Wait()
	slots.Wait()
	stop()
	_ = p.Close()
	if len(seen) != 2*n {
		t.Errorf("%d of %d jobs leased", len(seen), 2*n)
	}
	wantAll(t, s, 0, 0)
}

// wantAll is wantCounts for every subscription.
func wantAll(t *testing.T, s *emulator.Server, undelivered, leased int) {
	t.Helper()
	for _, st := range s.Stats() {
		if st.Undelivered != undelivered || st.Leased != leased {
			t.Errorf("%s: %d messages undelivered, %d leased; want %d and %d", st.Subscription, st.Undelivered, st.Leased, undelivered, leased)
		}
	}
}

func TestF01F14BothSubscriptionsShareOneConnection(t *testing.T) {
	s, l := startEmulator(t)
	if err := s.EnsureSubscription(subName+"-urgent", topicName+"-urgent", 600*time.Second); err != nil {
		t.Fatal(err)
	}
	src := source(t, l.Addr())
	p := &Priority{Urgent: src.Beside(subName + "-urgent"), Normal: src, Share: 5, Metrics: NewMetrics("test")}
	cause := errors.New("told to stop")
	ctx, stop := context.WithCancelCause(within(t))
	ended := make(chan error, 1)
	go func() {
		_, err := p.Lease(ctx)
		ended <- err
	}()
	wantPulls(t, s, 2)
	stop(cause)
	if err := <-ended; !errors.Is(err, cause) {
		t.Fatal(err)
	}
	_ = p.Close()
	if n := l.accepted.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestF14F17StoppedWhileBothAreAskedHoldsNothing(t *testing.T) {
	s, p, normal, urgent := startBoth(t)
	for i := range 8 {
		ctx, stop := context.WithCancelCause(within(t))
		ended := make(chan jobs.Lease, 1)
		go func() {
			lease, _ := p.Lease(ctx)
			ended <- lease
		}()
		wantPulls(t, s, 2) // both are asked
		// Two answers on their way at the moment of the stop.
		var both sync.WaitGroup
		both.Go(func() { publish(t, normal, jobs.Job{ID: jobs.ID(fmt.Sprintf("n%d", i))}) })
		both.Go(func() { publish(t, urgent, jobs.Job{ID: jobs.ID(fmt.Sprintf("u%d", i))}) })
		stop(errors.New("told to stop"))
		both.Wait()
		if lease := <-ended; lease.ID != "" { // the worker's part
			if err := p.Nack(within(t), lease, 0); err != nil {
				t.Error(err)
			}
		}
		_ = p.Close()
		for _, st := range s.Stats() {
			if st.Leased != 0 || st.Undelivered != 1 {
				t.Fatalf("round %d, %s: %d undelivered, %d held by nobody", i, st.Subscription, st.Undelivered, st.Leased)
			}
		}
		for _, src := range []Source{p.Urgent, p.Normal} { // an empty table for the next round
			lease, err := src.Lease(within(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := src.Ack(within(t), lease); err != nil {
				t.Fatal(err)
			}
		}
	}
}

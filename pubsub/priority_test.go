package pubsub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
	"github.com/batchfleet/batchfleet/worker/memory"
)

// fleet is a worker in virtual time over a priority and a normal queue in memory.
type fleet struct {
	t                *testing.T
	priority, normal *queue
	status           *memory.Status
	source           *PrioritySource
	worker           *worker.Worker
	stop             context.CancelFunc
	ended            chan error
}

// queue is a memory.Queue that may fail, or answer late, and counts extensions.
type queue struct {
	*memory.Queue
	delay   time.Duration // of each answer to Lease
	down    error         // what Lease says instead of a job
	extends atomic.Int32
}

func newQueue(ids ...jobs.ID) *queue {
	q := &queue{Queue: new(memory.Queue)}
	q.add(ids...)
	return q
}

func (q *queue) add(ids ...jobs.ID) {
	for _, id := range ids {
		q.Add(memory.Message{Job: jobs.Job{ID: id, Kind: "test"}})
	}
}

func (q *queue) Lease(ctx context.Context) (jobs.Lease, error) {
	if q.down != nil {
		return jobs.Lease{}, q.down
	}
	if err := jobs.Sleep(ctx, q.delay); err != nil {
		return jobs.Lease{}, err
	}
	return q.Queue.Lease(ctx)
}

func (q *queue) Extend(ctx context.Context, leases []jobs.Lease, ttl time.Duration) (map[string]error, error) {
	q.extends.Add(1)
	return q.Queue.Extend(ctx, leases, ttl)
}

// inBubble runs test in virtual time with a fleet whose worker is not started yet.
func inBubble(t *testing.T, h worker.Handler, test func(*testing.T, *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, priority: newQueue(), normal: newQueue(), status: new(memory.Status)}
		f.source = &PrioritySource{Priority: f.priority, Normal: f.normal, Share: 5, Leases: PriorityLeases(prometheus.NewRegistry())}
		f.worker = &worker.Worker{
			Source: f.source, Status: f.status, Handlers: map[jobs.Kind]worker.Handler{"test": h}, Log: slog.New(slog.DiscardHandler),
		}
		test(t, f)
		f.stop()
		if err := <-f.ended; err != nil {
			t.Errorf("worker ended with %v", err)
		}
		_ = f.source.Close()
		synctest.Wait()
	})
}

// start starts the worker; inBubble ends it.
func (f *fleet) start() {
	ctx, cancel := context.WithCancel(context.Background())
	f.stop, f.ended = cancel, make(chan error, 1)
	go func() {
		f.ended <- f.worker.Run(ctx)
		close(f.ended)
	}()
}

// after lets d of virtual time pass.
func (f *fleet) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
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

// taking is a handler whose jobs take so long and are noted in an order, if there is one.
type taking struct {
	time.Duration
	*order
}

func (h taking) Run(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	if h.order != nil {
		h.mu.Lock()
		h.ran = append(h.ran, string(job.ID))
		h.mu.Unlock()
	}
	for left := h.Duration; left > 0; left -= time.Minute {
		if err := jobs.Sleep(ctx, min(left, time.Minute)); err != nil {
			return jobs.Result{}, err
		}
		report(jobs.Progress{Message: left.String()})
	}
	return jobs.Result{}, nil
}

func (taking) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
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
			inBubble(t, taking{time.Second, &o}, func(t *testing.T, f *fleet) {
				f.worker.Pools = []worker.Pool{{Slots: slots}}
				f.priority.add(ids("p", 200)...)
				f.normal.add(ids("n", 200)...)
				f.start()
				f.after(time.Minute)
				got := o.letters()
				if len(got) < 55*slots {
					t.Errorf("%d jobs in a minute, want one a second and slot", len(got))
				}
				if slots == 1 && !strings.HasPrefix(got, "ppppnppppnppppn") {
					t.Errorf("ran %s, want every fifth normal", got)
				}
				if share := len(got) / 5; strings.Count(got, "n") < share-1 || strings.Count(got, "n") > share+1 {
					t.Errorf("%d of %d jobs were normal, want one in 5: %s", strings.Count(got, "n"), len(got), got)
				}
			})
		})
	}
}

func TestF14EndlessUrgentJobsDoNotStarveASlowNormalSource(t *testing.T) {
	var o order
	inBubble(t, taking{time.Second, &o}, func(t *testing.T, f *fleet) {
		f.normal.delay = 600 * time.Millisecond
		f.priority.add(ids("p", 200)...)
		f.normal.add(ids("n", 200)...)
		f.start()
		f.after(2 * time.Minute)
		if got := o.letters(); strings.Count(got, "n") < len(got)/6 {
			t.Errorf("%d of %d jobs were normal, want about one in 5: %s", strings.Count(got, "n"), len(got), got)
		}
	})
}

func TestF14OnlyUrgentOrOnlyNormalJobsRunWithoutMuchWaiting(t *testing.T) {
	for _, kind := range []string{"p", "n"} {
		t.Run(kind, func(t *testing.T) {
			var o order
			inBubble(t, taking{100 * time.Millisecond, &o}, func(t *testing.T, f *fleet) {
				f.start()
				f.after(time.Second) // ready
				into := f.priority
				if kind == "n" {
					into = f.normal
				}
				into.add(ids(kind, 1000)...)
				f.after(time.Minute)
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
	inBubble(t, taking{time.Second, &o}, func(t *testing.T, f *fleet) {
		f.start()
		f.after(time.Hour) // it waits at the normal queue, too
		for i := range 12 {
			f.priority.add(jobs.ID(fmt.Sprintf("p%d", i)))
			f.after(0)
			if got := o.letters(); len(got) != i+1 {
				t.Fatalf("priority job %d does not run: %s", i, got)
			}
			f.after(3 * time.Second)
		}
		f.normal.add("n")
		f.after(0)
		if got := o.letters(); !strings.HasSuffix(got, "n") {
			t.Errorf("the normal job does not run: %s", got)
		}
	})
}

func TestF14LeasesFindTheirWayBack(t *testing.T) {
	inBubble(t, taking{25 * time.Minute, nil}, func(t *testing.T, f *fleet) {
		f.worker.Pools = []worker.Pool{{Slots: 2}}
		f.priority.add("p")
		f.normal.add("n")
		f.start()
		f.after(time.Hour)
		for name, q := range map[jobs.ID]*queue{"p": f.priority, "n": f.normal} {
			if r, _ := f.status.Get(name); r.State != jobs.Succeeded || r.Attempt != 1 {
				t.Errorf("job %s is %s after %d attempts, want it succeeded after one", name, r.State, r.Attempt)
			}
			if waiting, leased := q.Len(); waiting+leased > 0 {
				t.Errorf("job %s was not acked", name)
			}
			if n := q.extends.Load(); n < 4 || n > 5 {
				t.Errorf("%d extensions of the job %s, want one every 300 s", n, name)
			}
		}
		if got := testutil.ToFloat64(f.source.Leases); got != 1 {
			t.Errorf("%v priority leases counted, want 1", got)
		}
	})
}

func TestF14LostLeasesAreNamedAsTheWorkerKnowsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &PrioritySource{Priority: newQueue("p"), Normal: newQueue("n"), Share: 2, Leases: PriorityLeases(prometheus.NewRegistry())}
		first, err := p.Lease(t.Context())
		if err != nil || first.Job.ID != "p" {
			t.Fatal(first, err)
		}
		unknown := jobs.Lease{ID: "normal/lease9"}
		lost, err := p.Extend(t.Context(), []jobs.Lease{first, unknown}, time.Minute)
		if err != nil || len(lost) != 1 || lost[unknown.ID] == nil {
			t.Errorf("lost %v, %v; want %s alone", lost, err, unknown.ID)
		}
		if err := p.Ack(t.Context(), jobs.Lease{ID: "x"}); err == nil {
			t.Error("a lease of neither source was acked")
		}
		if err := p.Nack(t.Context(), first, 0); err != nil {
			t.Error(err)
		}
		_ = p.Close()
	})
}

func TestF14OneMissingSubscriptionEndsTheWorkerThoughTheOtherHasJobs(t *testing.T) {
	for _, missing := range []string{"priority", "normal"} {
		for _, busy := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, the other has jobs: %t", missing, busy), func(t *testing.T) {
				inBubble(t, taking{time.Second, nil}, func(t *testing.T, f *fleet) {
					broken, whole := f.priority, f.normal
					if missing == "normal" {
						broken, whole = whole, broken
					}
					broken.down = fmt.Errorf("%w: subscription %s not found", worker.ErrRefused, missing)
					if busy {
						whole.add(ids("j", 500)...)
					}
					f.start()
					began := time.Now()
					select {
					case err := <-f.ended:
						if took := time.Since(began); !errors.Is(err, worker.ErrRefused) || !strings.Contains(err.Error(), missing) || took < 2*time.Minute || took > 3*time.Minute {
							t.Errorf("worker ended after %s with %v, want a refusal of %s after 2 min", took, err, missing)
						}
					case <-time.After(time.Hour):
						t.Error("the worker does not end")
					}
					if _, leased := whole.Len(); leased > 0 {
						t.Errorf("%d leases are left", leased)
					}
				})
			})
		}
	}
}

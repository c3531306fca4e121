package worker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker/memory"
)

// poolRig is a worker with pools in virtual time, over a queue and a status in memory.
type poolRig struct {
	bubbled
	queue  *memory.Queue
	status *memory.Status

	mu    sync.Mutex
	now   map[jobs.Kind]int // jobs that run
	most  map[jobs.Kind]int // at once
	gpus  map[int]jobs.ID   // who uses them
	seen  []int             // how many GPUs each job had
	wrong []string
}

// in notes that a job runs, and returns what notes its end.
func (s *poolRig) in(slot jobs.Slot, job jobs.Job) (out func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now[job.Kind]++
	s.most[job.Kind] = max(s.most[job.Kind], s.now[job.Kind])
	s.seen = append(s.seen, len(slot.GPUs))
	for _, gpu := range slot.GPUs {
		if other := s.gpus[gpu]; other != "" {
			s.wrong = append(s.wrong, fmt.Sprintf("job %s has GPU %d beside job %s", job.ID, gpu, other))
		}
		s.gpus[gpu] = job.ID
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now[job.Kind]--
		for _, gpu := range slot.GPUs {
			delete(s.gpus, gpu)
		}
	}
}

// inSlots is a handler whose jobs take so long. Those with a deaf id do not heed their
// context.
type inSlots struct {
	*poolRig
	takes time.Duration
}

func (inSlots) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
}

func (inSlots) Run(context.Context, jobs.Job, func(jobs.Progress)) (jobs.Result, error) {
	panic("an AttemptHandler is told of its attempt")
}

func (h inSlots) RunAttempt(ctx context.Context, a jobs.Attempt) (jobs.Result, error) {
	defer h.in(a.Slot, a.Job)()
	if strings.HasPrefix(string(a.Job.ID), "deaf") {
		ctx = context.WithoutCancel(ctx)
	}
	return jobs.Result{}, jobs.Sleep(ctx, h.takes)
}

// plain hides that a source can choose by kind.
type plain struct{ Source }

// inPoolBubble runs test with a worker that is not started yet, for jobs of kind slow (10
// minutes) and quick (a second), once with a source that chooses by kind and once with
// one that does not.
func inPoolBubble(t *testing.T, test func(*testing.T, *poolRig), pools ...Pool) {
	t.Helper()
	for _, chooses := range []bool{true, false} {
		t.Run(fmt.Sprintf("source chooses by kind: %t", chooses), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &poolRig{queue: new(memory.Queue), status: new(memory.Status), now: map[jobs.Kind]int{}, most: map[jobs.Kind]int{}, gpus: map[int]jobs.ID{}}
				s.worker = &Worker{
					Source: s.queue, Status: s.status, Log: slog.New(slog.DiscardHandler), Pools: pools, StallTimeout: time.Hour,
					Handlers: map[jobs.Kind]Handler{"slow": inSlots{s, 10 * time.Minute}, "quick": inSlots{s, time.Second}},
				}
				if !chooses {
					s.worker.Source = plain{s.queue}
				}
				test(t, s)
				s.stop()
				if err := <-s.ended; err != nil {
					t.Errorf("worker ended with %v", err)
				}
				time.Sleep(time.Hour) // handlers that were abandoned
				for _, wrong := range s.wrong {
					t.Error(wrong)
				}
			})
		})
	}
}

func (s *poolRig) add(kind jobs.Kind, prefix string, n int) {
	for i := range n {
		s.queue.Add(memory.Message{Job: jobs.Job{ID: jobs.ID(fmt.Sprintf("%s%d", prefix, i)), Kind: kind}})
	}
}

// succeeded counts the jobs with this prefix that have.
func (s *poolRig) succeeded(prefix string) (n int) {
	for i := 0; ; i++ {
		r, known := s.status.Get(jobs.ID(fmt.Sprintf("%s%d", prefix, i)))
		if !known && i > 50 {
			return n
		}
		if r.State == jobs.Succeeded {
			n++
		}
	}
}

func TestFullKindDoesNotStopAnother(t *testing.T) {
	inPoolBubble(t, func(t *testing.T, s *poolRig) {
		s.add("slow", "s", 8)
		s.add("quick", "q", 20)
		s.start()
		s.after(time.Minute)
		if n := s.succeeded("q"); n != 20 {
			t.Errorf("%d of 20 quick jobs have run beside slow ones", n)
		}
		s.after(42 * time.Minute)
		if n := s.succeeded("s"); n != 8 {
			t.Errorf("%d of 8 slow jobs have run in two slots", n)
		}
		if s.most["slow"] != 2 || s.most["quick"] != 1 {
			t.Errorf("%v at once, want 2 slow jobs and a quick one", s.most)
		}
		back := testutil.ToFloat64(s.worker.Metrics.handedBack.WithLabelValues("pool_full"))
		if _, chooses := s.worker.Source.(KindSource); chooses == (back > 0) {
			t.Errorf("%v jobs were handed back as their kind was full", back)
		}
		for i := range 8 {
			if r, _ := s.status.Get(jobs.ID(fmt.Sprintf("s%d", i))); r.Attempt != 1 {
				t.Errorf("job s%d has %d attempts, want 1: handing back is none", i, r.Attempt)
			}
		}
		if waiting, leased := s.queue.Len(); waiting+leased > 0 {
			t.Errorf("%d messages wait, %d are leased; want none left", waiting, leased)
		}
	}, Pool{Name: "slow", Kinds: []jobs.Kind{"slow"}, Slots: 2}, Pool{Name: "other", Slots: 1})
}

func TestGPUIsUsedByOneJobAtATime(t *testing.T) {
	inPoolBubble(t, func(t *testing.T, s *poolRig) {
		s.worker.JobTimeout = 5 * time.Minute // so that deaf jobs are abandoned
		s.add("slow", "deaf", 2)
		s.add("quick", "q", 40)
		s.start()
		s.after(5*time.Minute + 40*time.Second)
		if r, _ := s.status.Get("deaf0"); r.State != jobs.Failed {
			t.Errorf("a job that does not stop is %s, want failed", r.State)
		}
		if n := s.succeeded("q"); n != 0 {
			t.Errorf("%d jobs have run on GPUs that were in use", n)
		}
		s.after(time.Hour)
		if n := s.succeeded("q"); n != 40 {
			t.Errorf("%d of 40 jobs have run once the GPUs were free again", n)
		}
		if i := slices.IndexFunc(s.seen, func(n int) bool { return n != 2 }); i >= 0 {
			t.Errorf("a job had %d GPUs, want 2", s.seen[i])
		}
	}, Pool{Name: "gpu", Slots: 2, GPUs: []int{0, 1, 4, 5}})
}

func TestK13JobOfAKindThatNoPoolNamesIsLeftAndFailsInTheFirst(t *testing.T) {
	inPoolBubble(t, func(t *testing.T, s *poolRig) {
		s.worker.Source = plain{s.queue} // who chooses by kind never sees it
		s.add("odd", "o", 1)
		s.start()
		s.after(time.Minute)
		if r, _ := s.status.Get("o0"); r.State != jobs.Queued || r.Attempt != 0 {
			t.Errorf("the job is %s after %d attempts, want it queued and never started", r.State, r.Attempt)
		}
		s.after(24 * time.Hour)
		if r, _ := s.status.Get("o0"); r.State != jobs.Failed || r.Outcome.Code != "NO_WORKER_FOR_KIND" {
			t.Errorf("the job is %s, %+v; want it failed for want of its kind", r.State, r.Outcome)
		}
	}, Pool{Name: "slow", Kinds: []jobs.Kind{"slow"}}, Pool{Name: "quick", Kinds: []jobs.Kind{"quick"}})
}

var twoPools = []Pool{{Name: "slow", Kinds: []jobs.Kind{"slow"}, GPUs: []int{0}}, {Name: "other", Slots: 2}}

func TestWorkerWithPoolsLeavesWhenAllAreIdle(t *testing.T) {
	inPoolBubble(t, func(t *testing.T, s *poolRig) {
		s.worker.IdleExit = time.Minute
		s.add("slow", "s", 1)
		s.add("quick", "q", 1)
		s.start()
		began := time.Now()
		s.after(5 * time.Second)
		if err := s.worker.Ready(); err != nil {
			t.Errorf("ready: %v", err)
		}
		if err := <-s.ended; err != nil || time.Since(began) != 11*time.Minute {
			t.Errorf("the worker left after %s with %v, want a minute after its last job", time.Since(began), err)
		}
	}, twoPools...)
}

func TestWorkerWithPoolsDrains(t *testing.T) {
	inPoolBubble(t, func(t *testing.T, s *poolRig) {
		s.add("slow", "s", 3)
		s.start()
		s.after(12 * time.Second)
		s.add("quick", "q", 1)
		s.after(500 * time.Millisecond)
		s.stop()
		stopped := time.Now()
		if err := <-s.ended; err != nil || time.Since(stopped) > 10*time.Second {
			t.Errorf("the worker left %s after it was told to, with %v", time.Since(stopped), err)
		}
		if n := s.succeeded("q"); n != 1 {
			t.Error("the quick job was not let finish")
		}
		started := 0
		for i := range 3 {
			r, known := s.status.Get(jobs.ID(fmt.Sprintf("s%d", i)))
			if known {
				started++
			}
			if known && r.State != jobs.Queued {
				t.Errorf("slow job %d is %s, want it queued", i, r.State)
			}
		}
		if started != 1 {
			t.Errorf("%d slow jobs were started, want 1", started)
		}
		s.after(time.Minute) // those that were handed back come back
		if waiting, leased := s.queue.Len(); waiting != 3 || leased != 0 {
			t.Errorf("%d messages wait, %d are leased; want the three slow ones to wait", waiting, leased)
		}
	}, twoPools...)
}

func TestWorkerWithPoolsLeavesBeforeItsRuntimeIsOver(t *testing.T) {
	inPoolBubble(t, func(t *testing.T, s *poolRig) {
		s.worker.MaxRuntime, s.worker.JobTimeout = 30*time.Minute, 15*time.Minute
		s.add("slow", "s", 3)
		s.start()
		began := time.Now()
		// Nothing is leased after 14 minutes; the second job has begun before.
		if err := <-s.ended; err != nil || time.Since(began) < 20*time.Minute || time.Since(began) > 21*time.Minute {
			t.Errorf("the worker left after %s with %v, want 20 to 21 minutes", time.Since(began), err)
		}
		if n := s.succeeded("s"); n != 2 {
			t.Errorf("%d jobs have run, want 2", n)
		}
	}, twoPools...)
}

func TestPoolsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		pools      []Pool
	}{
		{"a kind twice", `pool "b": kind "k" has a pool already`, []Pool{{Name: "a", Kinds: []jobs.Kind{"k"}}, {Name: "b", Kinds: []jobs.Kind{"k"}}}},
		{"two for the rest", `pool "b": another one takes all other kinds already`, []Pool{{Name: "a"}, {Name: "b"}}},
		{"a GPU twice", `pool "b": GPU 1 has a place already`, []Pool{{Name: "a", GPUs: []int{1}}, {Name: "b", Kinds: []jobs.Kind{"k"}, GPUs: []int{0, 1}}}},
		{"GPUs that cannot be shared out", `pool "a": 3 GPUs cannot be shared out to 2 slots`, []Pool{{Name: "a", Slots: 2, GPUs: []int{0, 1, 2}}}},
		{"less than no slots", `pool "a": 0 GPUs cannot be shared out to -1 slots`, []Pool{{Name: "a", Slots: -1}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &Worker{Source: new(memory.Queue), Status: new(memory.Status), Log: slog.New(slog.DiscardHandler), Pools: tt.pools}
			if err := w.Run(t.Context()); err == nil || err.Error() != tt.want {
				t.Errorf("run: %v, want %s", err, tt.want)
			}
		})
	}
}

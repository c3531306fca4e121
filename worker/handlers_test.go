package worker

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// limited is a handler of functions whose jobs have a time limit.
type limited struct {
	handler
	limit time.Duration
}

func (l limited) TimeLimit() time.Duration { return l.limit }

// replace starts a worker with two jobs of kind slow in hand, takes the kind quick from it and
// gives it the kind fresh, and a slow whose jobs take a second.
func (s *poolRig) replace() {
	s.add("slow", "s", 2)
	s.start()
	s.after(time.Minute)
	s.worker.Replace(map[jobs.Kind]Handler{"slow": inSlots{s, time.Second}, "fresh": inSlots{s, time.Second}})
}

func TestK01RunningJobsKeepTheirHandlerAndOthersGetTheNewOne(t *testing.T) {
	inPoolBubble(t, func(t *testing.T, s *poolRig) {
		s.replace()
		s.add("fresh", "f", 3)
		s.after(time.Minute)
		if s.succeeded("f") != 3 || s.succeeded("s") != 0 {
			t.Errorf("after a minute %d jobs of a new kind have ended, want 3, and %d of those that ran, want none", s.succeeded("f"), s.succeeded("s"))
		}
		s.after(9 * time.Minute)
		if n := s.succeeded("s"); n != 2 {
			t.Errorf("%d of the two jobs have ended that ran for 10 minutes", n)
		}
		s.add("slow", "next", 4)
		s.after(time.Minute)
		if n := s.succeeded("next"); n != 4 {
			t.Errorf("%d of 4 jobs have ended by the new handler", n)
		}
	}, Pool{Name: "slow", Kinds: []jobs.Kind{"slow"}, Slots: 2}, Pool{Name: "other", Slots: 1})
}

func TestK01JobsOfAKindThatIsGoneAreLeftToOthersUntilItIsBack(t *testing.T) {
	for name, pools := range map[string][]Pool{
		"in a pool of its own": {{Name: "quick", Kinds: []jobs.Kind{"quick"}, Slots: 2}, {Name: "other", Slots: 3}},
		"among all others":     {{Name: "slow", Kinds: []jobs.Kind{"slow"}, Slots: 2}, {Name: "other", Slots: 1}},
		"in the only pool":     {{Slots: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			inPoolBubble(t, func(t *testing.T, s *poolRig) {
				s.replace()
				s.add("quick", "q", 3)
				s.add("fresh", "f", 3)
				s.after(2 * time.Minute)
				if s.succeeded("q") != 0 || s.succeeded("f") != 3 {
					t.Errorf("%d jobs of the kind that is gone have run, and %d of 3 others", s.succeeded("q"), s.succeeded("f"))
				}
				if r, _ := s.status.Get("q0"); r.Attempt != 0 || r.State.Terminal() {
					t.Errorf("a job of it is %s after %d attempts, want it to wait", r.State, r.Attempt)
				}
				s.worker.Replace(map[jobs.Kind]Handler{"quick": inSlots{s, time.Second}})
				s.after(2 * time.Minute)
				if n := s.succeeded("q"); n != 3 {
					t.Errorf("%d of 3 jobs have run since the kind is back", n)
				}
			}, pools...)
		})
	}
}

func TestK01HandlersAreReplacedWhileJobsRunAndWhileNoneComes(t *testing.T) {
	inPoolBubble(t, func(t *testing.T, s *poolRig) {
		s.worker.Handlers = nil // those of the rig take 10 minutes for a job
		s.start()
		var replacing sync.WaitGroup
		replacing.Go(func() {
			for n := range 300 {
				kinds := map[jobs.Kind]Handler{"quick": inSlots{s, 100 * time.Millisecond}}
				if n%2 == 0 {
					kinds["slow"] = inSlots{s, 100 * time.Millisecond}
				}
				s.worker.Replace(kinds)
				time.Sleep(70 * time.Millisecond)
			}
			s.worker.Replace(map[jobs.Kind]Handler{"quick": inSlots{s, 1}, "slow": inSlots{s, 1}})
		})
		s.add("quick", "q", 50)
		s.add("slow", "s", 20)
		replacing.Wait()
		s.after(5 * time.Minute)
		if s.succeeded("q") != 50 || s.succeeded("s") != 20 {
			t.Errorf("%d of 50 jobs have run, and %d of 20 of a kind that came and went", s.succeeded("q"), s.succeeded("s"))
		}
	}, twoPools...)
}

func TestK01KindThatGoesWhileItsJobIsOnItsWayFailsNone(t *testing.T) {
	inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
		gone := make(chan struct{})
		r.worker.Handlers["test"] = handler{
			earlier: func(jobs.Job) (jobs.Result, bool, error) {
				r.worker.Replace(nil)
				close(gone)
				return jobs.Result{}, false, nil
			},
			run: takes(time.Second).run,
		}
		r.start()
		<-gone
		r.after(2 * time.Second)
		r.wantStatus("j", "completed 100% Processing completed!")
		r.wantTold("ack j")
	}, "j")
}

func TestK01TimeLimitIsThatOfTheHandlerThatRunsTheJob(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.worker.StallTimeout = time.Hour
		r.worker.Handlers["test"] = limited{untilStopped, 10 * time.Minute}
		r.start()
		r.after(time.Minute)
		r.worker.Replace(map[jobs.Kind]Handler{"test": limited{untilStopped, 2 * time.Minute}})
		r.after(8 * time.Minute)
		r.wantTold("")
		r.after(2 * time.Minute)
		r.wantStatus("j1", "failed 0%: job timeout: it did not end within 10m0s")
		r.after(2 * time.Minute)
		r.wantStatus("j2", "failed 0%: job timeout: it did not end within 2m0s")
	}, "j1", "j2")
}

func TestK01WorkerLeavesInTimeForTheNewHandlers(t *testing.T) {
	inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
		r.worker.MaxRuntime, r.worker.JobTimeout = time.Hour, 10*time.Minute
		r.start()
		began := time.Now()
		r.after(time.Minute)
		r.worker.Replace(map[jobs.Kind]Handler{"test": limited{takes(time.Second), 40 * time.Minute}})
		r.wantLeft(began, 19*time.Minute, 19*time.Minute+time.Second, "MAX_RUNTIME")
	})
}

func TestK01KindsThatAreReplacedAreNoTroubleOfTheSource(t *testing.T) {
	inPoolBubble(t, func(t *testing.T, s *poolRig) {
		s.replace()
		s.after(time.Second)
		families, err := s.worker.Metrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if strings.HasSuffix(f.GetName(), "lease_errors_total") && f.GetMetric()[0].GetCounter().GetValue() > 0 {
				t.Errorf("it counts as trouble: %v", f)
			}
		}
		if err := s.worker.Ready(); err != nil {
			t.Errorf("the worker is not ready: %v", err)
		}
	}, twoPools...)
}

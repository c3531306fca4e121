package gateway_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// stopTime is a handler that notes when and why it was told to stop.
func (r *rig) stopTime(at *time.Duration, why *error) handler {
	return func(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
		<-ctx.Done()
		*at, *why = time.Since(r.plane.start), context.Cause(ctx)
		return jobs.Result{}, *why
	}
}

// cancelSeen is how long after a cancel the handler of a job has been told: a
// heartbeat that waits hears of it at once, and the worker's next report tells.
const cancelSeen = 3 * time.Second

func TestJ14CancelReachesTheHandlerInSecondsAndNotAtTheNextHeartbeat(t *testing.T) {
	for _, after := range []time.Duration{100 * time.Millisecond, time.Second, 59 * time.Second, 25*time.Second + 500*time.Millisecond, 10 * time.Minute} {
		t.Run(after.String(), func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				var at time.Duration
				var why error
				r.handler, r.plane.holds = r.stopTime(&at, &why), true
				r.plane.submit("j1")
				var canceled time.Duration
				_ = r.work(func() {
					time.Sleep(after)
					canceled = time.Since(r.plane.start)
					r.plane.cancel("j1")
					time.Sleep(time.Minute)
				})
				if !errors.Is(why, jobs.ErrCanceled) || at-canceled > cancelSeen {
					t.Errorf("canceled at %s, stopped at %s: %v", canceled, at, why)
				}
				r.wantSaid("lease j1", "cancel j1", "failed j1 CANCELED canceled")
			})
		})
	}
}

func TestJ14ListenerAsksTwiceAMinuteAndEndsWithItsJob(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.holds, r.handler = true, r.lasting(10*time.Minute+10*time.Second) // it ends in the middle of a wait
		r.plane.submit("j1")
		_ = r.work(func() {
			time.Sleep(9 * time.Minute)
			if n := r.plane.held(); n != 1 {
				t.Errorf("%d calls are held while the job runs, want 1", n)
			}
			time.Sleep(time.Until(r.plane.start.Add(10*time.Minute + 11*time.Second)))
			r.wantSaid("lease j1", "result j1")
			if n := r.plane.held(); n != 0 {
				t.Errorf("%d calls are held a second after the result, want none", n)
			}
			time.Sleep(time.Hour)
		})
		r.wantSaid("lease j1", "result j1")
		if n := r.plane.calls["listen"]; n < 20 || n > 25 {
			t.Errorf("%d calls in ten minutes, want one every 25 s", n)
		}
	})
}

func TestJ14OldGatewayIsAskedRarelyAndShortJobsListenToNobody(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.handler = r.lasting(time.Hour)
		r.plane.submit("j1")
		_ = r.work(func() { time.Sleep(2 * time.Hour) })
		if n := r.plane.calls["listen"]; n < 1 || n > 6 {
			t.Errorf("%d calls in an hour of a gateway that does not wait, want one every 10 min", n)
		}
	})
	test(t, func(t *testing.T, r *rig) {
		r.handler, r.plane.holds = r.lasting(400*time.Millisecond), true
		for _, id := range []string{"j1", "j2", "j3"} {
			r.plane.submit(id)
		}
		_ = r.work(func() { time.Sleep(2 * time.Minute) })
		r.wantSaid("lease j1", "result j1", "lease j2", "result j2", "lease j3", "result j3")
		if n := r.plane.calls["listen"]; n != 0 {
			t.Errorf("%d calls for jobs of 400 ms", n)
		}
	})
}

func TestJ14ListenerIsPatientAndNeverFailsTheJob(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"500", "503", "cut", "slow", "html", "truncated", "400", "insecure", "no route", "404 page", "lost"} {
		t.Run(wrong, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.plane.holds, r.handler = true, r.lasting(20*time.Minute)
				r.plane.submit("j1")
				r.plane.broken("listen", wrong, time.Hour)
				_ = r.work(func() { time.Sleep(25 * time.Minute) })
				r.wantSaid("lease j1", "result j1")
				if n := r.plane.calls["listen"]; n > 120 {
					t.Errorf("%d calls in 20 minutes", n)
				}
				if n := r.plane.calls["listen"]; wrong == "503" && n > 20*60/77+1 {
					t.Errorf("%d calls in 20 minutes, each told to come back after 77 s", n)
				}
			})
		})
		t.Run(wrong+" for a while", func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				var at, canceled time.Duration
				var why error
				r.plane.holds, r.handler = true, r.stopTime(&at, &why)
				r.plane.submit("j1")
				var well atomic.Bool
				r.plane.fault = onListen(wrong, &well)
				_ = r.work(func() {
					time.Sleep(30 * time.Second)
					well.Store(true)
					time.Sleep(2 * time.Minute)
					canceled = time.Since(r.plane.start)
					r.plane.cancel("j1")
					time.Sleep(time.Minute)
				})
				if !errors.Is(why, jobs.ErrCanceled) || at-canceled > cancelSeen {
					t.Errorf("canceled at %s, stopped at %s: %v", canceled, at, why)
				}
				r.wantSaid("lease j1", "cancel j1", "failed j1 CANCELED canceled")
			})
		})
	}
}

// onListen is a fault of the calls that wait, until all is well.
func onListen(wrong string, well *atomic.Bool) func(string, int) string {
	return func(route string, _ int) string {
		if route != "listen" || well.Load() {
			return ""
		}
		return wrong
	}
}

func TestJ14ListenerHearsThatTheLeaseIsLost(t *testing.T) {
	for _, wrong := range []string{"409", "404", "401", "403"} {
		t.Run(wrong, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				var at time.Duration
				var why error
				r.plane.holds, r.handler = true, r.stopTime(&at, &why)
				r.plane.submit("j1")
				r.plane.brokenAt("listen", wrong, 2)
				_ = r.work(func() { time.Sleep(time.Minute) })
				if !errors.Is(why, jobs.ErrLeaseLost) || at > 30*time.Second {
					t.Errorf("stopped at %s: %v", at, why)
				}
				r.wantSaid("lease j1")
			})
		})
	}
}

func TestJ14ListenerThatWaitsDoesNotHoldUpTheStop(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.holds, r.handler = true, untilStopped
		r.adjust = func(w *worker.Worker) { w.Drain = time.Second }
		r.plane.submit("j1")
		var began time.Time
		_ = r.work(func() { time.Sleep(10 * time.Second); began = time.Now() })
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("stopping took %s", took)
		}
	})
}

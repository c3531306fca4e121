package worker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// wantLeft waits for the worker to end by itself.
func (r *rig) wantLeft(began time.Time, low, high time.Duration, why string) {
	r.t.Helper()
	select {
	case err := <-r.ended:
		if took := time.Since(began); err != nil || took < low || took > high {
			r.t.Errorf("worker left after %s with %v, want nil after %s to %s\n%s", took, err, low, high, r.log)
		}
	case <-time.After(24 * time.Hour):
		r.t.Errorf("the worker does not leave\n%s", r.log)
	}
	if !strings.Contains(r.log.String(), why) {
		r.t.Errorf("the log does not say %q:\n%s", why, r.log)
	}
}

func TestF20IdleWorkerLeaves(t *testing.T) {
	const why = `why="no job has come for 1m0s"`
	t.Run("when nothing comes", func(t *testing.T) {
		inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
			r.worker.IdleExit, r.worker.Pools = time.Minute, []Pool{{Slots: 3}}
			r.start()
			r.wantLeft(time.Now(), time.Minute, 61*time.Second, why)
		})
	})
	t.Run("never, unless told to", func(t *testing.T) {
		inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
			r.start()
			r.after(3 * time.Hour)
			select {
			case err := <-r.ended:
				t.Errorf("the worker left with %v", err)
			default:
			}
		})
	})
	t.Run("so long after its last job has ended, in whatever slot", func(t *testing.T) {
		inBubble(t, takes(10*time.Minute), func(_ *testing.T, r *rig) {
			r.worker.IdleExit, r.worker.Pools = time.Minute, []Pool{{Slots: 2}}
			began := time.Now()
			r.start()
			r.after(30 * time.Second)
			r.q.add("late")
			r.wantLeft(began, 11*time.Minute+30*time.Second, 11*time.Minute+32*time.Second, why)
			r.wantTold("ack j, ack late")
		}, "j")
	})
	t.Run("not while it is not ready: it cannot know whether there are jobs", func(t *testing.T) {
		inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
			r.worker.IdleExit = time.Minute
			r.status.cut(true)
			began := time.Now()
			r.start()
			r.after(time.Hour)
			r.status.cut(false)
			r.wantLeft(began, time.Hour+time.Minute, time.Hour+80*time.Second, why)
		})
	})
	t.Run("not while the source fails", func(t *testing.T) {
		inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
			r.worker.IdleExit = time.Minute
			r.q.down = errors.New("unavailable")
			began := time.Now()
			r.start()
			r.after(time.Hour)
			r.q.locked(func() { r.q.down = nil })
			r.wantLeft(began, time.Hour+time.Minute, time.Hour+2*time.Minute, why)
		})
	})
}

func TestF20JobThatComesInTheMomentOfLeavingIsNotLost(t *testing.T) {
	for _, early := range []time.Duration{0, time.Nanosecond, -time.Nanosecond} {
		t.Run(fmt.Sprint(early), func(t *testing.T) {
			inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
				r.worker.IdleExit = time.Minute
				r.worker.Checks = nil
				time.AfterFunc(time.Minute-early, func() {
					r.q.add("j")
				})
				r.start()
				if err := <-r.ended; err != nil {
					t.Error(err)
				}
				r.after(2 * time.Second)
				if _, leased := r.q.Len(); r.q.told() != "nack j" && r.q.told() != "ack j" && (r.q.told() != "" || leased > 0) {
					t.Errorf("the source was told %q, and %d leases are left", r.q.told(), leased)
				}
			})
		})
	}
}

func TestF20WorkerLeavesBeforeItsRuntimeIsOver(t *testing.T) {
	const why = `why="the rest of MAX_RUNTIME is kept for the jobs in hand"`
	limits := func(r *rig) {
		r.worker.MaxRuntime, r.worker.JobTimeout, r.worker.StallTimeout = 6*time.Minute, 2*time.Minute, 2*time.Minute+time.Second
	}
	t.Run("at once when nothing is in hand", func(t *testing.T) {
		inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
			limits(r)
			r.start()
			r.wantLeft(time.Now(), 3*time.Minute, 3*time.Minute+time.Second, why)
			r.wantTold("ack j")
		}, "j")
	})
	t.Run("with the job in hand done, though it takes longer than the drain time", func(t *testing.T) {
		inBubble(t, takes(80*time.Second), func(_ *testing.T, r *rig) {
			limits(r)
			r.start()
			r.wantLeft(time.Now(), 4*time.Minute, 4*time.Minute+time.Second, why)
			r.wantTold("ack j1, ack j2, ack j3") // j4 is not begun
		}, "j1", "j2", "j3", "j4")
	})
	t.Run("with the last job failed by its timeout", func(t *testing.T) {
		inBubble(t, untilStopped, func(_ *testing.T, r *rig) {
			limits(r)
			r.start()
			r.wantLeft(time.Now(), 4*time.Minute, 4*time.Minute+time.Second, why)
			r.wantTold("ack j1, ack j2")
			r.wantStatus("j2", "failed 0%: job timeout: it did not end within 2m0s")
		}, "j1", "j2", "j3")
	})
	t.Run("handing back what does not end in time, because its time was promised", func(t *testing.T) {
		inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
			limits(r)
			r.worker.SettleTimeout = 5 * time.Hour
			r.start()
			r.after(2 * time.Minute)
			r.q.add("j")
			r.after(500 * time.Millisecond)
			r.status.cut(true) // it cannot be recorded
			began := r.q.start
			r.wantLeft(began, 6*time.Minute-6*time.Second, 6*time.Minute, why)
			r.wantTold("nack j")
			r.status.cut(false)
		})
	})
	t.Run("at the latest after the drain time when it is told to stop meanwhile", func(t *testing.T) {
		inBubble(t, takes(2*time.Minute-time.Second), func(_ *testing.T, r *rig) {
			limits(r)
			r.start()
			r.after(3*time.Minute + 10*time.Second)
			r.stop()
			r.wantLeft(time.Now(), 8*time.Second, 10*time.Second, why)
			r.wantTold("ack j1, nack j2")
		}, "j1", "j2")
	})
}

package worker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// wantAccount compares how often a job was started and how often that was a crash.
func (r *rig) wantAccount(id jobs.ID, attempts, crashes int) {
	r.t.Helper()
	e, err := r.status.Get(r.t.Context(), id)
	if err != nil || e.Detail.Attempt != attempts || e.Detail.Crashes != crashes {
		r.t.Errorf("at %s job %s has %d attempts and %d crashes, %v; want %d and %d\n%s", time.Since(r.q.start), id, e.Detail.Attempt, e.Detail.Crashes, err, attempts, crashes, r.log)
	}
}

// runs lets a few seconds pass in the attempt with this number.
func (r *rig) runs(id jobs.ID, attempt int) {
	r.t.Helper()
	for range 60 {
		r.after(time.Second)
		if e, err := r.status.Get(r.t.Context(), id); err == nil && e.Detail.Attempt == attempt && e.Status == "processing" {
			r.after(3 * time.Second)
			return
		}
	}
	r.wantAccount(id, attempt, 0)
}

// cutOff takes the network away from the worker: Redis and the queue.
func (r *rig) cutOff(cut bool) {
	r.status.cut(cut)
	r.q.locked(func() { r.q.deaf = cut })
}

func TestF23ThreeCutsOf18SecondsAreNoCrash(t *testing.T) {
	t.Run("of the only worker, which asks for its jobs again at once", func(t *testing.T) {
		ids := []jobs.ID{"a", "b", "c", "d", "e", "f", "g", "h"}
		inBubble(t, takes(20*time.Second), func(_ *testing.T, r *rig) {
			r.worker.Claims, r.worker.Pools, r.worker.Checks = r.status, []Pool{{Slots: len(ids)}}, nil
			r.status.MaxCrashes = 1
			r.worker.LeaseTTL, r.worker.ExtendEvery, r.q.LeaseTTL = 12*time.Second, 4*time.Second, 12*time.Second
			r.start()
			for n := range 3 {
				r.runs("a", n+1)
				r.cutOff(true)
				r.after(18 * time.Second)
				r.cutOff(false)
			}
			r.after(2 * time.Minute)
			for _, id := range ids {
				r.wantStatus(id, "completed 100% Processing completed!")
				if e, err := r.status.Get(r.t.Context(), id); err != nil || e.Detail.Crashes != 0 {
					r.t.Errorf("job %s has %d crashes, %v; want none", id, e.Detail.Crashes, err)
				}
			}
			r.wantAccount("a", 4, 0) // the others were not all caught by each cut
		}, ids...)
	})
	t.Run("of one of two", func(t *testing.T) {
		inBubble(t, takes(10*time.Minute), func(t *testing.T, r *rig) {
			r.worker.Claims = r.status
			r.worker.LeaseTTL, r.worker.ExtendEvery, r.q.LeaseTTL = 12*time.Second, 4*time.Second, 12*time.Second
			r.start()
			for n := range 3 {
				r.runs("j", 2*n+1)
				r.cutOff(true)
				r.after(17 * time.Second)
				taken := r.another() // its lease is over, and its claim
				r.wantAccount("j", 2*n+2, 1)
				r.after(time.Second)
				r.cutOff(false)
				r.after(10 * time.Second)
				r.wantAccount("j", 2*n+2, 0)
				if err := r.status.Store.Release(t.Context(), taken.claim, "again"); err != nil {
					t.Error(err)
				}
				if err := r.q.Nack(t.Context(), taken.lease, 0); err != nil {
					t.Error(err)
				}
			}
		}, "j")
	})
}

// shard is a Status whose part with job a does not answer to Release while it is away.
type shard struct {
	*flaky
	away atomic.Bool
}

func (s *shard) Release(ctx context.Context, c jobs.Claim, message string) error {
	if c.Job == "a" && s.away.Load() {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", jobs.ErrUnavailable, ctx.Err())
	}
	return s.flaky.Release(ctx, c, message)
}

func TestF23AttemptsAreReleasedThoughAPartOfRedisHangs(t *testing.T) {
	var full atomic.Bool
	h := handler{run: func(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
		err := jobs.Sleep(ctx, 5*time.Second)
		if err == nil && full.Load() {
			err = fmt.Errorf("%w: disk full", jobs.ErrUnavailable)
		}
		return jobs.Result{}, err
	}}
	inBubble(t, h, func(_ *testing.T, r *rig) {
		s := &shard{flaky: r.status}
		full.Store(true)
		r.worker.Claims, r.worker.Status, r.worker.Pools = r.status, s, []Pool{{Slots: 3}}
		r.start()
		r.after(time.Second)
		r.status.cut(true)
		r.after(9 * time.Second)
		full.Store(false)
		s.away.Store(true)
		r.status.cut(false)
		r.after(10 * time.Second)
		r.wantStatus("b", "queued 0% Interrupted; waiting for another try...")
		r.wantStatus("c", "queued 0% Interrupted; waiting for another try...")
		r.after(time.Minute)
		r.wantStatus("b", "completed 100% Processing completed!") // nor does it hold up their claims
		r.wantStatus("c", "completed 100% Processing completed!")
		s.away.Store(false)
		r.after(5 * time.Minute)
		r.wantStatus("a", "completed 100% Processing completed!")
		for _, id := range []jobs.ID{"a", "b", "c"} {
			r.wantAccount(id, 2, 0)
		}
	}, "a", "b", "c")
}

func TestF23LateReleaseIsLoggedOnce(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		away       bool
		taken      bool // by another worker, which counts the attempt as a crash
	}{
		{"when it is done", `level=INFO msg="attempt released late" job=a attempt=1 after=1h0m0s` + "\n", false, false},
		{"when the crash is taken off", `level=INFO msg="attempt released late" job=a attempt=1 after=1h0m0s` + "\n", false, true},
		{"when it is given up", `level=WARN msg="gave up releasing attempt; it counts as a crash" job=a attempt=1 `, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, handler{}, func(t *testing.T, r *rig) {
				s := &shard{flaky: r.status}
				s.away.Store(tt.away)
				o := newUnreleased(s, r.worker.Log)
				mine := r.another()
				o.add(mine.claim, "again", "")
				time.Sleep(releaseFor)
				if tt.taken {
					if c, err := r.status.Store.Claim(t.Context(), mine.lease.Job, time.Minute, jobs.Claim{}); err != nil || c.Crashes != 1 {
						t.Errorf("claim: %+v, %v", c, err)
					}
				}
				call, cancel := context.WithTimeout(t.Context(), callTimeout)
				defer cancel()
				for range 3 { // as a claim does, beside the loop
					go func() { _ = o.release(call, "a") }()
				}
				r.after(2 * callTimeout)
				if log := r.log.String(); !strings.Contains(log, tt.want) || strings.Count(log, "\n") != 1 {
					t.Errorf("want one line with %q:\n%s", tt.want, log)
				}
			}, "a")
		})
	}
}

func TestF23WorkerThatNeverComesBackIsACrash(t *testing.T) {
	inBubble(t, takes(10*time.Second), func(_ *testing.T, r *rig) {
		r.another()
		r.worker.Claims = r.status
		r.start()
		r.after(time.Minute)
		r.wantStatus("j", "completed 100% Processing completed!")
		r.wantAccount("j", 2, 1)
	}, "j")
}

// TestF23StoppingWorkerReleasesUntilTheDrainTimeEnds has a worker that has given its
// job up, and is then told to stop, while Redis refuses writes.
func TestF23StoppingWorkerReleasesUntilTheDrainTimeEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		back time.Duration // after the stop, when Redis works again
		left time.Duration // when the worker has ended
		want string
	}{
		{"Redis is back in time", 6 * time.Second, 7 * time.Second, "queued 0% Interrupted; waiting for another try..."},
		{"Redis is back at the last moment", 9 * time.Second, 10 * time.Second, "queued 0% Interrupted; waiting for another try..."},
		{"Redis is back too late", time.Minute, 10 * time.Second, "processing 0% Processing started..."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := handler{run: func(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
				return jobs.Result{}, fmt.Errorf("%w: disk full, %w", jobs.ErrUnavailable, jobs.Sleep(ctx, 5*time.Second))
			}}
			inBubble(t, h, func(t *testing.T, r *rig) {
				r.worker.Claims, r.worker.Drain = r.status, 9500*time.Millisecond
				r.start()
				r.after(time.Second)
				r.status.cut(true)
				r.after(9 * time.Second)
				time.AfterFunc(tt.back, func() { r.status.cut(false) })
				stopped := time.Now()
				r.stop()
				if err := <-r.ended; err != nil {
					t.Error(err)
				}
				if took := time.Since(stopped); took > tt.left {
					t.Errorf("the worker had ended after %s, want %s at most", took, tt.left)
				}
				r.after(time.Until(stopped.Add(2 * time.Minute)))
				r.wantStatus("j", tt.want)
			}, "j")
		})
	}
}

// TestF23FinalCallIsRepeatedWhileThereIsTime has a job in hand when the drain time ends.
func TestF23FinalCallIsRepeatedWhileThereIsTime(t *testing.T) {
	inBubble(t, takes(time.Hour), func(_ *testing.T, r *rig) {
		r.worker.Claims = r.status
		r.start()
		r.after(time.Second)
		r.status.cut(true)
		time.AfterFunc(9*time.Second, func() { r.status.cut(false) }) // 1 s after the drain time
		r.stops(10 * time.Second)
		r.wantStatus("j", "queued 0% Worker stopped; waiting for another worker")
	}, "j")
}

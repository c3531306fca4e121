package worker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/worker/memory"
)

func TestF09OutcomeIsRecordedThenAcked(t *testing.T) {
	tests := []struct {
		name   string
		h      handler
		told   string
		status string
	}{
		{"success is recorded and acked", takes(3 * time.Second), "ack j", "completed 100% Processing completed!"},
		{"failure is final: recorded and acked", fails(errors.New("not a PDF")), "ack j", "failed 0%: not a PDF"},
		{"trouble of the infrastructure is handed back", fails(fmt.Errorf("%w: disk full", jobs.ErrUnavailable)), "nack j", "queued 0% Interrupted; waiting for another try..."},
		{"secrets stay out of the reason", fails(errors.New("get redis://me:hunter2@host: token=abcdef")), "ack j", "failed 0%: get redis://[redacted]@host: token=[redacted]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, tt.h, func(_ *testing.T, r *rig) {
				r.q.onAck = func(jobs.ID) { r.wantStatus("j", tt.status) } // before the ack
				r.start()
				r.after(5 * time.Second)
				r.wantTold(tt.told)
				r.wantStatus("j", tt.status)
			}, "j")
		})
	}
}

func TestF06LeaseIsExtendedEvery300SecondsUntilTheJobEnds(t *testing.T) {
	inBubble(t, takes(25*time.Minute), func(t *testing.T, r *rig) {
		r.start()
		r.after(time.Hour)
		r.wantTold("ack j")
		r.wantStatus("j", "completed 100% Processing completed!")
		// 25 minutes are 1500 s: extended at 300, 600, 900, 1200 and, just
		// before the end, 1500 s; never after.
		if n := len(r.q.extends); n != 4 && n != 5 {
			t.Errorf("%d extensions, want 4 or 5: %v", n, r.q.extends)
		}
		for i, at := range r.q.extends {
			want := time.Duration(i+1) * 300 * time.Second
			if diff := at - want; diff < 0 || diff > 2*time.Second {
				t.Errorf("extension %d at %s, want %s", i+1, at, want)
			}
		}
	}, "j")
}

func TestF07UnextendableJobStopsBeforeItsLeaseEnds(t *testing.T) {
	var stopped atomic.Int64
	var cause atomic.Value
	h := handler{run: func(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
		began := time.Now()
		<-ctx.Done()
		stopped.CompareAndSwap(0, int64(time.Since(began)))
		cause.CompareAndSwap(nil, context.Cause(ctx))
		return jobs.Result{}, ctx.Err()
	}}
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.q.deaf = true
		r.start()
		r.after(599 * time.Second)
		if at := time.Duration(stopped.Load()); at < 565*time.Second || at > 571*time.Second {
			t.Errorf("stopped after %s, want 30 s before its 600 s were over", at)
		}
		if err, _ := cause.Load().(error); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("cause %v, want ErrLeaseLost", err)
		}
		r.wantTold("")                                           // neither acked nor nacked
		r.wantStatus("j", "processing 0% Processing started...") // no status write
		// From 300 s on: attempts of 10 s, 5 to 10 s apart.
		if n := len(r.q.extends); n < 12 || n > 20 {
			t.Errorf("%d attempts to extend, want one every 15 to 20 s for 270 s: %v", n, r.q.extends)
		}
	}, "j")
}

func TestF07ExtensionRecovers(t *testing.T) {
	inBubble(t, takes(20*time.Minute), func(_ *testing.T, r *rig) {
		r.q.deaf = true
		r.start()
		r.after(500 * time.Second)
		r.q.locked(func() { r.q.deaf = false })
		r.after(time.Hour)
		r.wantTold("ack j")
	}, "j")
}

func TestF05ShortOrUnknownLeaseIsExtendedAtOnce(t *testing.T) {
	inBubble(t, takes(60*time.Second), func(t *testing.T, r *rig) {
		r.q.LeaseTTL = 10 * time.Second
		r.start()
		r.after(5 * time.Second)
		if len(r.q.extends) != 1 {
			t.Errorf("extended %d times in the first 5 s of a 10 s lease, want at once", len(r.q.extends))
		}
		r.after(time.Minute)
		r.wantTold("ack j")
	}, "j")
}

func TestF10RedisAwayAtTheEnd(t *testing.T) {
	runs := 0
	h := takes(10 * time.Second)
	inner := h.run
	h.run = func(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		runs++
		return inner(ctx, job, report)
	}
	stored := jobs.Result{Object: "results/j/result.json", Pages: 10}
	h.earlier = func(jobs.Job) (jobs.Result, bool, error) { return stored, runs > 0, nil }
	t.Run("for 20 s: the lease is kept and the outcome recorded", func(t *testing.T) {
		runs = 0
		inBubble(t, h, func(_ *testing.T, r *rig) {
			r.start()
			r.after(9 * time.Second)
			r.status.cut(true)
			r.after(20 * time.Second)
			r.wantTold("")
			r.status.cut(false)
			r.after(31 * time.Second)
			r.wantTold("ack j")
			r.wantStatus("j", "completed 100% Processing completed!")
		}, "j")
	})
	t.Run("longer than SETTLE_TIMEOUT: handed back unacked, repaired without a second run", func(t *testing.T) {
		runs = 0
		inBubble(t, h, func(t *testing.T, r *rig) {
			r.start()
			r.after(9 * time.Second)
			r.status.cut(true)
			r.after(11 * time.Minute)
			r.wantTold("nack j")
			r.status.cut(false)
			r.after(3 * time.Minute)
			r.wantTold("nack j, ack j")
			r.wantStatus("j", "completed 100% Processing completed!")
			if runs != 1 {
				t.Errorf("the job ran %d times, want once: its result was stored", runs)
			}
		}, "j")
	})
}

func TestF11DuplicateDeliveryRunsOnce(t *testing.T) {
	var running, most, runs atomic.Int32
	h := takes(20 * time.Second)
	inner := h.run
	h.run = func(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		runs.Add(1)
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		return inner(ctx, job, report)
	}
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.worker.Pools = []Pool{{Slots: 2}}
		r.start()
		r.after(10 * time.Second)
		r.wantTold("nack j")
		r.after(5 * time.Minute)
		r.wantTold("nack j, nack j, ack j, ack j")
		if runs.Load() != 1 || most.Load() != 1 {
			t.Errorf("%d runs, %d at once; want one", runs.Load(), most.Load())
		}
	}, "j", "j")
}

func TestF12CrashLoopIsFailedUnlessTheResultIsThere(t *testing.T) {
	for _, found := range []bool{false, true} {
		h := takes(time.Second)
		h.earlier = func(jobs.Job) (jobs.Result, bool, error) {
			return jobs.Result{Object: "results/j/result.json", Pages: 7}, found, nil
		}
		inBubble(t, h, func(_ *testing.T, r *rig) {
			for range 3 {
				r.died("j")
			}
			r.start()
			r.after(time.Second)
			r.wantTold("ack j")
			if found {
				r.wantStatus("j", "completed 100% Processing completed!")
			} else {
				r.wantStatus("j", "failed 0%: worker crashed 3 times")
			}
		}, "j")
	}
}

func TestF04InvalidJobIsFailedAndAcked(t *testing.T) {
	inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
		r.q.replace(
			memory.Message{Job: jobs.Job{ID: "j", Kind: "test"}, Invalid: errors.New("bad message: pages is -1, must be from 0 to 100000")},
			memory.Message{Job: jobs.Job{ID: "k", Kind: "bogus"}},
		)
		r.start()
		r.after(time.Second)
		r.wantTold("ack j, nack k")
		r.wantStatus("j", "failed 0%: bad message: pages is -1, must be from 0 to 100000")
		r.wantStatus("k", `queued 0% no worker for kind "bogus" has taken it yet`) // see TestK13…
	}, "j")
}

func TestF15TroubleOfTheSource(t *testing.T) {
	t.Run("that may pass is waited out", func(t *testing.T) {
		inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
			r.q.down = errors.New("unavailable")
			r.start()
			r.after(time.Hour)
			r.q.locked(func() { r.q.down = nil })
			r.after(32 * time.Second) // the longest pause is 30 s
			r.wantTold("ack j")
		}, "j")
	})
	t.Run("that a retry cannot fix ends the worker after START_TIMEOUT", func(t *testing.T) {
		inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
			r.q.down = fmt.Errorf("%w: subscription not found", ErrRefused)
			r.worker.Pools = []Pool{{Slots: 5}}
			r.start()
			began := time.Now()
			err := <-r.ended
			if n := strings.Count(r.log.String(), "the source refuses this worker"); n != 1 {
				t.Errorf("that is logged %d times, want once:\n%s", n, r.log)
			}
			if took := time.Since(began); !errors.Is(err, ErrRefused) || took < 2*time.Minute || took > 3*time.Minute {
				t.Errorf("worker ended after %s with %v, want a refusal after 2 min", took, err)
			}
		}, "j")
	})
	t.Run("that passes in time does not", func(t *testing.T) {
		inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
			r.q.down = fmt.Errorf("%w: subscription not found", ErrRefused)
			r.start()
			r.after(100 * time.Second)
			r.q.locked(func() { r.q.down = nil })
			r.after(time.Minute)
			r.wantTold("ack j")
		}, "j")
	})
}

func TestF16NothingIsLeasedWhileRedisIsAway(t *testing.T) {
	inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
		r.status.cut(true)
		r.start()
		r.after(5 * time.Minute)
		if r.q.leases != 0 {
			t.Errorf("%d jobs leased without Redis, want none", r.q.leases)
		}
		if err := r.worker.Ready(); err == nil || !strings.Contains(err.Error(), "redis") {
			t.Errorf("ready: %v, want what is wrong", err)
		}
		r.status.cut(false)
		r.after(20 * time.Second)
		r.wantTold("ack j")
		if err := r.worker.Ready(); err != nil {
			t.Errorf("ready: %v, want nil again", err)
		}
	}, "j")
}

func TestF16RedisGoneWhileIdleStopsTheLeasing(t *testing.T) {
	inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
		r.start()
		r.after(time.Minute)
		r.status.cut(true)
		r.after(time.Minute) // noticed by the next check
		r.q.add("j")
		r.after(time.Minute)
		r.wantTold("")
		if r.q.leases != 0 {
			r.t.Errorf("%d jobs leased, want none", r.q.leases)
		}
		r.status.cut(false)
		r.after(time.Minute)
		r.wantTold("ack j")
	})
}

func TestF17StoppingWorker(t *testing.T) {
	t.Run("lets a job finish that can", func(t *testing.T) {
		inBubble(t, takes(10*time.Second), func(_ *testing.T, r *rig) {
			r.start()
			r.after(5 * time.Second)
			r.stops(6 * time.Second)
			r.wantTold("ack j")
		}, "j", "k") // k is not begun
	})
	t.Run("hands back a job that cannot", func(t *testing.T) {
		inBubble(t, takes(time.Minute), func(t *testing.T, r *rig) {
			r.start()
			r.after(5500 * time.Millisecond)
			r.stop()
			began := time.Now()
			if err := <-r.ended; err != nil {
				t.Errorf("worker ended with %v, want nil", err)
			}
			if took := time.Since(began); took < 8*time.Second || took > 10*time.Second {
				t.Errorf("worker ended after %s, want the drain time of 8 s and at most 2 more", took)
			}
			r.wantTold("nack j")
			r.wantStatus("j", "queued 21% Worker stopped; waiting for another worker")
			if strings.Contains(r.log.String(), "cannot report progress") {
				t.Errorf("the log warns of a report:\n%s", r.log)
			}
			c, err := r.status.Claim(t.Context(), jobs.Job{ID: "j"}, time.Minute, jobs.Claim{})
			if err != nil || c.Verdict != jobs.Granted || c.Crashes != 0 {
				t.Errorf("next claim: %+v, %v; want it granted at once and no crash counted", c, err)
			}
		}, "j")
	})
	t.Run("ends within 2 s of its drain time though Redis is frozen", func(t *testing.T) {
		inBubble(t, takes(time.Minute), func(_ *testing.T, r *rig) {
			r.start()
			r.after(2 * time.Second)
			r.status.freeze(true)
			r.stops(10 * time.Second)
			r.wantTold("nack j")
		}, "j")
	})
	t.Run("ends within 2 s of its drain time though Redis is away", func(t *testing.T) {
		inBubble(t, takes(3*time.Second), func(_ *testing.T, r *rig) {
			r.start()
			r.after(2 * time.Second)
			r.status.cut(true)
			r.stops(10 * time.Second)
			r.wantTold("nack j")
		}, "j")
	})
}

func TestF17StoppingWorkerSaysWhatItWaitsFor(t *testing.T) {
	const want, force = "stopping: jobs in hand have 8s to finish", "; another signal hands them back at once"
	for _, tt := range []struct {
		name        string
		jobs        []jobs.ID
		forced      chan struct{}
		want, never string
	}{
		{"with a job", []jobs.ID{"j"}, nil, want, force},
		{"with a job and a way to force the stop", []jobs.ID{"j"}, make(chan struct{}), want + force, "jobs=2"},
		{"with nothing to do", nil, nil, "", "stopping"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, takes(10*time.Second), func(t *testing.T, r *rig) {
				if tt.forced != nil {
					r.worker.ForceStop = make(chan struct{}) // of this bubble
				}
				r.start()
				r.after(5 * time.Second)
				r.stops(10 * time.Second)
				if log := r.log.String(); !strings.Contains(log, tt.want) || strings.Contains(log, tt.never) {
					t.Errorf("want %q and not %q:\n%s", tt.want, tt.never, log)
				}
			}, tt.jobs...)
		})
	}
}

func TestF17HandlerThatDoesNotStopIsNotWaitedForWhenTimeIsUp(t *testing.T) {
	h := handler{run: func(context.Context, jobs.Job, func(jobs.Progress)) (jobs.Result, error) {
		time.Sleep(time.Minute)
		return jobs.Result{}, nil
	}}
	inBubble(t, h, func(_ *testing.T, r *rig) {
		r.start()
		r.after(time.Second)
		r.stops(10 * time.Second)
		r.wantTold("nack j")
		time.Sleep(time.Minute)
	}, "j")
}

// lost answers a claim too late for the worker to hear it.
type lost struct {
	*flaky
	once sync.Once
}

func (l *lost) Claim(ctx context.Context, job jobs.Job, hold time.Duration, again jobs.Claim) (jobs.Claim, error) {
	c, err := l.flaky.Claim(ctx, job, hold, again)
	l.once.Do(func() {
		<-ctx.Done()
		c, err = jobs.Claim{Job: c.Job, Token: c.Token}, fmt.Errorf("%w: %w", jobs.ErrUnavailable, ctx.Err())
	})
	return c, err
}

func TestF17ClaimWhoseAnswerWasLostIsGivenBack(t *testing.T) {
	inBubble(t, takes(time.Minute), func(t *testing.T, r *rig) {
		r.worker.Status = &lost{flaky: r.status}
		r.worker.Drain = time.Second
		r.start()
		r.after(time.Second)
		r.stops(10 * time.Second)
		r.wantTold("nack j")
		c, err := r.status.Claim(t.Context(), jobs.Job{ID: "j"}, time.Minute, jobs.Claim{})
		if err != nil || c.Verdict != jobs.Granted || c.Crashes != 0 {
			t.Errorf("next claim: %+v, %v; want it granted at once and no crash counted", c, err)
		}
	}, "j")
}

// slow delivers an extension after a second, though it was sent before.
type slow struct{ *queue }

func (s slow) Extend(ctx context.Context, leases []jobs.Lease, ttl time.Duration) (map[string]error, error) {
	time.Sleep(time.Second)
	s.locked(func() { s.note("extended %s", leases[0].Job.ID) })
	return s.queue.Extend(ctx, leases, ttl)
}

// momentary answers a claim after a moment, so that what else a new lease sets
// off has begun by then.
type momentary struct{ *flaky }

func (u momentary) Claim(ctx context.Context, job jobs.Job, hold time.Duration, again jobs.Claim) (jobs.Claim, error) {
	time.Sleep(10 * time.Millisecond)
	return u.flaky.Claim(ctx, job, hold, again)
}

func TestF06ExtensionDoesNotOvertakeANack(t *testing.T) {
	inBubble(t, takes(time.Minute), func(t *testing.T, r *rig) {
		r.q.LeaseTTL = 10 * time.Second // so that it is extended at once
		r.worker.Source = slow{r.q}
		r.worker.Status = momentary{r.status}
		if c, err := r.status.Claim(t.Context(), jobs.Job{ID: "j"}, 30*time.Second, jobs.Claim{}); err != nil || c.Verdict != jobs.Granted {
			t.Fatal(c, err) // another worker runs it
		}
		r.start()
		r.after(5 * time.Second)
		r.wantTold("extended j, nack j")
	}, "j")
}

// late answers a lease call after it was called off.
type late struct {
	*queue
	delay time.Duration
}

func (l late) Lease(ctx context.Context) (jobs.Lease, error) {
	<-ctx.Done()
	time.Sleep(l.delay)
	return l.queue.Lease(context.WithoutCancel(ctx))
}

func TestF17ReplyInFlightIsGivenBack(t *testing.T) {
	inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
		r.worker.Source = late{r.q, 100 * time.Millisecond}
		r.start()
		r.after(time.Second)
		r.stops(10 * time.Second)
		r.wantTold("nack j")
		r.wantStatus("j", "nothing")
	}, "j")
}

func TestF18LimitsOfAJob(t *testing.T) {
	t.Run("JOB_TIMEOUT fails it", func(t *testing.T) {
		inBubble(t, takes(2*time.Hour), func(_ *testing.T, r *rig) {
			r.worker.JobTimeout = 30*time.Minute - time.Second/2 // between two pages
			r.start()
			r.after(31 * time.Minute)
			r.wantTold("ack j")
			r.wantStatus("j", "failed 24%: job timeout: it did not end within 29m59.5s (last progress: Page 1799/7200 analyzing...)")
		}, "j")
	})
	t.Run("JOB_TIMEOUT fails one whose fetch is too slow", func(t *testing.T) {
		h := handler{run: func(ctx context.Context, _ jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
			for {
				report(jobs.Progress{Step: "fetch", Message: "x"})
				if err := jobs.Sleep(ctx, 400*time.Millisecond); err != nil {
					return jobs.Result{}, err
				}
			}
		}}
		inBubble(t, h, func(_ *testing.T, r *rig) {
			r.worker.JobTimeout = 5 * time.Minute
			r.start()
			r.after(6 * time.Minute)
			r.wantTold("ack j")
			r.wantStatus("j", "failed 0%: job timeout: it did not end within 5m0s (last progress: x)")
		}, "j")
	})
	silent := handler{run: func(ctx context.Context, _ jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		report(jobs.Progress{Done: 3, Total: 9, Message: "Page 3/9 analyzing..."})
		<-ctx.Done()
		return jobs.Result{}, ctx.Err()
	}}
	t.Run("STALL_TIMEOUT fails it", func(t *testing.T) {
		inBubble(t, silent, func(_ *testing.T, r *rig) {
			r.start()
			r.after(11 * time.Minute)
			r.wantTold("ack j")
			r.wantStatus("j", "failed 33%: no progress for 10m0s (last progress: Page 3/9 analyzing...)")
		}, "j")
	})
	for _, step := range []string{"fetch", "store"} {
		t.Run("a storage that hangs in step "+step+" is not the job's fault", func(t *testing.T) {
			h := handler{run: func(ctx context.Context, _ jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
				report(jobs.Progress{Step: step, Message: "x"})
				<-ctx.Done()
				return jobs.Result{}, ctx.Err()
			}}
			inBubble(t, h, func(_ *testing.T, r *rig) {
				r.start()
				r.after(10*time.Minute + 10*time.Second)
				r.wantTold("nack j")
				r.wantStatus("j", "queued 0% Interrupted; waiting for another try...")
			}, "j")
		})
	}
	for limit, set := range map[string]func(*Worker){
		"JOB_TIMEOUT":   func(w *Worker) { w.JobTimeout = 5 * time.Minute },
		"STALL_TIMEOUT": func(w *Worker) { w.StallTimeout = time.Minute },
	} {
		for _, step := range []string{"pages", "store"} {
			t.Run("Redis that is away as "+limit+" ends in step "+step+" is not the job's fault", func(t *testing.T) {
				h := handler{run: func(ctx context.Context, _ jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
					for range 25 {
						if err := jobs.Sleep(ctx, 10*time.Second); err != nil {
							return jobs.Result{}, err
						}
						report(jobs.Progress{Step: step, Message: "x"})
					}
					for jobs.Held(ctx) != nil {
						if err := jobs.Sleep(ctx, time.Second); err != nil {
							return jobs.Result{}, err
						}
					}
					return jobs.Result{Pages: 1}, nil
				}}
				inBubble(t, h, func(_ *testing.T, r *rig) {
					set(r.worker)
					r.worker.Claims = r.status
					r.start()
					r.after(235 * time.Second)
					r.status.cut(true)
					r.after(90 * time.Second)
					r.status.cut(false)
					r.after(10 * time.Second)
					r.wantTold("nack j")
					r.after(6 * time.Minute)
					r.wantTold("nack j, ack j")
					r.wantStatus("j", "completed 100% Processing completed!")
				}, "j")
			})
		}
	}
	t.Run("the look for an earlier result has the same limits", func(t *testing.T) {
		h := takes(time.Second)
		h.earlier = func(job jobs.Job) (jobs.Result, bool, error) {
			if job.ID == "j" {
				panic("torn")
			}
			return jobs.Result{}, false, nil
		}
		inBubble(t, h, func(_ *testing.T, r *rig) {
			r.start()
			r.after(5 * time.Second)
			r.wantTold("ack j, ack k")
			r.wantStatus("j", "failed 0%: internal error: torn")
		}, "j", "k")
	})
	t.Run("a handler that does not stop is abandoned, its job failed", func(t *testing.T) {
		hang := make(chan struct{})
		var once sync.Once
		h := handler{run: func(_ context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
			if job.ID == "j" {
				<-hang
			}
			return jobs.Result{}, nil
		}}
		inBubble(t, h, func(_ *testing.T, r *rig) {
			defer once.Do(func() { close(hang) })
			hang = make(chan struct{})
			r.start()
			r.after(12 * time.Minute)
			r.wantTold("ack j, ack k")
			r.wantStatus("j", "failed 0%: no progress for 10m0s")
		}, "j", "k")
	})
	t.Run("a panic fails it and the worker lives on", func(t *testing.T) {
		h := handler{run: func(_ context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
			if job.ID == "j" {
				var none []string
				return jobs.Result{Object: none[len(job.ID)]}, nil
			}
			return jobs.Result{}, nil
		}}
		inBubble(t, h, func(t *testing.T, r *rig) {
			r.start()
			r.after(time.Second)
			r.wantTold("ack j, ack k")
			r.wantStatus("j", "failed 0%: internal error: runtime error: index out of range [1] with length 0")
			if !strings.Contains(r.log.String(), "worker_test.go") {
				t.Errorf("the log has no stack:\n%s", r.log)
			}
		}, "j", "k")
	})
}

func TestF19CancelIsSeenWithinTwoSeconds(t *testing.T) {
	var stopped time.Time
	h := handler{run: func(ctx context.Context, _ jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		report(jobs.Progress{Done: 1, Total: 4, Message: "Page 1/4 analyzing..."})
		<-ctx.Done() // a page that takes forever
		stopped = time.Now()
		return jobs.Result{}, ctx.Err()
	}}
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.start()
		r.after(time.Minute)
		asked := time.Now()
		if _, err := r.status.Cancel(t.Context(), "j"); err != nil {
			t.Fatal(err)
		}
		r.after(3 * time.Second)
		if took := stopped.Sub(asked); took < 0 || took > 2*time.Second {
			t.Errorf("stopped %s after the cancel, want 2 s at most", took)
		}
		r.wantTold("ack j")
		r.wantStatus("j", "canceled 25% Canceled")
	}, "j")
}

func TestF34ProgressNeverBlocksAndIsThinnedOut(t *testing.T) {
	h := handler{run: func(ctx context.Context, _ jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		for n := range 100_000 { // for 10 s
			began := time.Now()
			report(jobs.Progress{Done: n + 1, Total: 100_000, Message: fmt.Sprintf("Page %d/100000 analyzing...", n+1)})
			if time.Since(began) != 0 {
				t.Error("report has waited")
			}
			if err := jobs.Sleep(ctx, 100*time.Microsecond); err != nil {
				return jobs.Result{}, err
			}
		}
		return jobs.Result{}, nil
	}}
	inBubble(t, h, func(t *testing.T, r *rig) {
		seen := map[string]bool{}
		var finished bool
		r.q.onAck = func(jobs.ID) {
			lines, err := r.status.Lines(context.Background(), "j", status.LogQuery{Tail: 100_000})
			if err != nil {
				t.Error(err)
			}
			for _, l := range lines {
				seen[l.Text] = true
			}
			finished = true
		}
		r.start()
		r.after(11 * time.Second)
		if !finished {
			t.Fatal("the job has not ended")
		}
		if r.status.reports < 90 || r.status.reports > 102 {
			t.Errorf("%d progress writes in 10 s, want 10 a second and the first and last", r.status.reports)
		}
		if !seen["Page 1/100000 analyzing..."] {
			t.Error("the first page was not shown")
		}
	}, "j")
}

func TestF34LastPageIsAlwaysShown(t *testing.T) {
	var last string
	h := handler{run: func(context.Context, jobs.Job, func(jobs.Progress)) (jobs.Result, error) { return jobs.Result{}, nil }}
	h.run = func(ctx context.Context, _ jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		for n := range 3 {
			report(jobs.Progress{Done: n + 1, Total: 3, Message: fmt.Sprintf("Page %d/3 analyzing...", n+1)})
		}
		return jobs.Result{}, jobs.Sleep(ctx, time.Millisecond)
	}
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.q.onAck = func(jobs.ID) {
			lines, err := r.status.Lines(context.Background(), "j", status.LogQuery{Tail: 100})
			if err != nil || len(lines) < 2 {
				t.Error(lines, err)
				return
			}
			last = lines[len(lines)-2].Text
		}
		r.start()
		r.after(time.Second)
		if last != "Page 3/3 analyzing..." {
			t.Errorf("the last line before the end is %q, want the last page", last)
		}
	}, "j")
}

func TestF31StatusIsForgottenAfter24Hours(t *testing.T) {
	inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
		r.start()
		r.after(24*time.Hour - time.Minute)
		r.wantStatus("j", "completed 100% Processing completed!")
		r.after(2 * time.Minute)
		r.wantStatus("j", "nothing")
	}, "j")
}

// TestRedisLossLongerThanTheClaimKeepsTheJob shows that a running job survives a
// loss of Redis that outlasts its claim, since its lease keeps others away.
func TestF16RedisLossLongerThanTheClaimKeepsTheJob(t *testing.T) {
	inBubble(t, takes(10*time.Minute), func(_ *testing.T, r *rig) {
		r.start()
		r.after(time.Minute)
		r.status.cut(true)
		r.after(3 * time.Minute)
		r.status.cut(false)
		r.after(10 * time.Minute)
		r.wantTold("ack j")
		r.wantStatus("j", "completed 100% Processing completed!")
	}, "j")
}

func TestManySlotsRunManyJobs(t *testing.T) {
	var running, most atomic.Int32
	h := takes(10 * time.Second)
	inner := h.run
	h.run = func(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		return inner(ctx, job, report)
	}
	var ids []jobs.ID
	for i := range 20 {
		ids = append(ids, jobs.ID(fmt.Sprintf("j%d", i)))
	}
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.worker.Pools = []Pool{{Slots: 5}}
		r.start()
		r.after(39 * time.Second)
		if most.Load() != 5 {
			t.Errorf("%d jobs at once, want 5", most.Load())
		}
		r.after(3 * time.Second)
		if n := len(r.q.said); n != 20 {
			t.Errorf("%d of 20 jobs acked after four rounds", n)
		}
		synctest.Wait()
	}, ids...)
}

func TestF64MetricsCountAndNameNoJob(t *testing.T) {
	h := handler{run: func(_ context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		report(jobs.Progress{Done: 1, Total: 1, Message: "Page 1/1 analyzing..."})
		if job.ID == "secret-bad" {
			return jobs.Result{}, errors.New("broken")
		}
		return jobs.Result{Pages: 4}, nil
	}}
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.worker.Metrics, r.worker.KindTimeout = NewMetrics("test"), 1
		r.q.Add(memory.Message{Job: jobs.Job{ID: "secret-odd", Kind: "secret-kind", Submitted: time.Now().Add(-time.Minute)}})
		r.start()
		r.after(time.Minute)
		families, err := r.worker.Metrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if strings.HasPrefix(f.GetName(), "batchfleet_") {
					fmt.Fprintf(&text, "%s %s\n", f.GetName(), m)
				}
			}
		}
		got := strings.ReplaceAll(text.String(), "  ", " ")
		for _, want := range []string{
			`batchfleet_jobs_total label:{name:"kind" value:"test"} label:{name:"outcome" value:"succeeded"} counter:{value:1`,
			`batchfleet_jobs_total label:{name:"kind" value:"test"} label:{name:"outcome" value:"failed"} counter:{value:1`,
			`batchfleet_jobs_total label:{name:"kind" value:"unknown"} label:{name:"outcome" value:"failed"} counter:{value:1`,
			`batchfleet_pages_total label:{name:"kind" value:"test"} counter:{value:4`,
			`batchfleet_job_wait_seconds histogram:{sample_count:1`,
			`batchfleet_job_run_seconds label:{name:"kind" value:"test"} histogram:{sample_count:2`,
			`batchfleet_progress_written_total counter:{value:2`,
			`batchfleet_leases_total counter:{value:3`,
			`batchfleet_worker_ready gauge:{value:1`,
			`batchfleet_build_info`,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in\n%s", want, got)
			}
		}
		if strings.Contains(got, "secret") {
			t.Error("a metric carries what a message said")
		}
	}, "secret-good", "secret-bad")
}

func TestF11ClaimNeverOutlivesTheLease(t *testing.T) {
	inBubble(t, takes(5*time.Minute), func(t *testing.T, r *rig) {
		r.worker.LeaseTTL, r.q.LeaseTTL = 10*time.Second, 10*time.Second
		r.start()
		for range 60 {
			r.after(time.Second)
			until, err := strconv.ParseInt(r.redis.HGet("{job:j}:claim", "until"), 10, 64)
			if left := time.Until(time.UnixMilli(until)); err != nil || left > 10*time.Second {
				t.Fatalf("claimed for %s more, %v; the lease has 10 s at most", left, err)
			}
		}
	}, "j")
}

package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

func TestZ29AgentHasNoRedisClient(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for dep := range strings.Lines(string(out)) {
		door := strings.Contains(dep, "gateway/") && strings.TrimSpace(dep) != "github.com/batchfleet/batchfleet/gateway/wire"
		if strings.Contains(dep, "redis") || strings.Contains(dep, "batchfleet/status") || door {
			t.Errorf("package gateway depends on %s", dep)
		}
	}
}

func TestZ50ResultArrivesToTheDigitAndItsFilesAreForgotten(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.submit("j1", "j2")
		_ = r.work(func() { time.Sleep(time.Minute) })
		r.wantSaid("lease j1", "result j1", "lease j2", "result j2")
		if len(r.plane.reports) != 2 {
			t.Fatalf("%d results were posted", len(r.plane.reports))
		}
		got := r.plane.reports[0]
		var want struct {
			Result  json.RawMessage `json:"result"`
			Summary string          `json:"summary_text"`
		}
		if err := json.Unmarshal([]byte(someResult), &want); err != nil {
			t.Fatal(err)
		}
		if string(got.Result) != string(want.Result) || *got.SummaryText != want.Summary || string(got.Meta) != `{"worker_hostname":"h"}` {
			t.Errorf("posted %s %q %s", got.Result, *got.SummaryText, got.Meta)
		}
		if want := []jobs.ID{"j1", "j2"}; !slices.Equal(r.forgot(), want) {
			t.Errorf("forgot %v, want %v", r.forgot(), want)
		}
		if f := r.entries(); len(f) != 0 {
			t.Errorf("left behind: %v", f)
		}
	})
}

func TestZ42LostAnswerIsNotALostLease(t *testing.T) {
	for _, wrong := range []string{"lost", "truncated"} {
		t.Run(wrong, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.plane.submit("j1", "j2")
				r.plane.brokenAt("lease", wrong, 1, 2)
				_ = r.work(func() { time.Sleep(time.Minute) })
				said := r.plane.said()
				if said[0] != "lease j1" || said[1] != "lease j1 again" || r.plane.job("j1").status != "finished" || r.plane.job("j2").status != "finished" {
					t.Errorf("the control plane saw %q", said)
				}
				if n := r.plane.job("j1").retries; n != 0 {
					t.Errorf("the job was retried %d times", n)
				}
				first := r.plane.asks[0].RequestID
				if first == "" || r.plane.asks[1].RequestID != first || r.plane.asks[len(r.plane.asks)-1].RequestID == first {
					t.Errorf("request ids: %+v", r.plane.asks)
				}
			})
		})
	}
}

func TestZ45LeaseIsExtendedEveryThirdOfItsTime(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.ttl = 60 * time.Second
		r.handler = r.lasting(30 * time.Minute)
		r.plane.submit("j1")
		_ = r.work(func() { time.Sleep(31 * time.Minute) })
		r.wantSaid("lease j1", "result j1")
		beats := r.plane.times("beat j1")
		if n := len(beats); n < 90 || n > 92 {
			t.Errorf("%d heartbeats in 30 minutes, want about 90", n)
		}
	})
}

func TestZ46LeaseAsksForAWaitAndNamesWhatTheWorkerCan(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		_ = r.work(func() { time.Sleep(time.Second) })
		ask := r.plane.asks[0]
		if !slices.Equal(ask.Features, []string{"renew", "cancel"}) || ask.WaitSeconds != 30 || ask.RequestID == "" {
			t.Errorf("asked %+v", ask)
		}
		h := r.plane.headers[0]
		if h.Get("User-Agent") != "batchfleet/1.2.3" || h.Get("Authorization") != "Bearer "+theToken || h.Get("Accept-Encoding") != "" {
			t.Errorf("headers %v", h)
		}
	})
}

func TestZ48PollsAtItsPace(t *testing.T) {
	t.Run("without jobs less and less often", func(t *testing.T) {
		test(t, func(t *testing.T, r *rig) {
			r.slots = 4 // they ask in turn
			_ = r.work(func() { time.Sleep(10 * time.Minute) })
			polls := r.plane.times("none")
			if n := len(polls); n < 20 || n > 34 {
				t.Errorf("%d polls in 10 minutes", n)
			}
			spread := map[time.Duration]bool{}
			for i := range polls[1:] {
				gap := polls[i+1] - polls[i]
				spread[gap] = true
				least := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second}[min(i, 2)]
				if gap < least || gap > least*3/2 {
					t.Errorf("poll %d came %s after the one before, want %s to %s", i+2, gap, least, least*3/2)
				}
			}
			if len(spread) < 10 {
				t.Errorf("the gaps have no jitter: %v", spread)
			}
		})
	})
	t.Run("at once after a job", func(t *testing.T) {
		test(t, func(t *testing.T, r *rig) {
			r.slots = 2
			r.handler = r.lasting(7 * time.Minute)
			r.plane.submit("j1")
			_ = r.work(func() {
				time.Sleep(7*time.Minute - time.Second) // the other slot polls, seldom
				r.plane.mu.Lock()
				r.plane.jobs["j2"] = &planeJob{payload: "{}", status: "queued", acks: map[string]string{}, reaped: map[string]bool{}}
				r.plane.mu.Unlock()
				time.Sleep(10 * time.Minute)
			})
			ended := r.plane.times("result j1")[0]
			for _, at := range r.plane.times("none") {
				if at >= ended {
					if at-ended > time.Second {
						t.Errorf("the next poll came %s after the end of the job", at-ended)
					}
					return
				}
			}
			t.Error("no poll after the job")
		})
	})
	t.Run("a gateway that waits sets the pace", func(t *testing.T) {
		test(t, func(t *testing.T, r *rig) {
			r.plane.waits = true
			_ = r.work(func() {
				time.Sleep(5*time.Minute + 10*time.Second)
				r.plane.submit("j1")
				time.Sleep(time.Second)
			})
			if n := r.plane.calls["lease"]; n < 11 || n > 13 {
				t.Errorf("%d calls in 5 minutes of 30 s each", n)
			}
			if at := r.plane.times("result j1"); len(at) != 1 || at[0] > 5*time.Minute+11*time.Second {
				t.Errorf("the job ended at %v, want at once", at)
			}
		})
	})
	t.Run("Retry-After is honoured", func(t *testing.T) {
		test(t, func(t *testing.T, r *rig) {
			r.plane.brokenAt("lease", "503", 1)
			r.plane.submit("j1")
			_ = r.work(func() { time.Sleep(2 * time.Minute) })
			if at := r.plane.times("lease j1"); len(at) != 1 || at[0] < 77*time.Second || at[0] > 80*time.Second {
				t.Errorf("leased at %v, want after 77 s", at)
			}
		})
	})
}

func TestZ78FirstHeartbeatComesBeforeTheJobStarts(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		beats := -1
		r.handler = func(ctx context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
			beats = len(r.plane.times("beat " + string(job.ID)))
			if job.Payload != `{"n":"j1"}` || job.Kind != "zpe" {
				t.Errorf("job %+v", job)
			}
			return r.put(ctx, job)
		}
		r.plane.submit("j1")
		_ = r.work(func() { time.Sleep(time.Second) })
		if beats != 1 {
			t.Errorf("%d heartbeats before the handler started, want 1", beats)
		}
	})
}

func TestZ78JobThatIsLostBeforeItStartsDoesNotStart(t *testing.T) {
	for _, wrong := range []string{"409", "401", "403", "404"} {
		t.Run(wrong, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.handler = func(context.Context, jobs.Job, func(jobs.Progress)) (jobs.Result, error) {
					t.Error("the handler was started")
					return jobs.Result{}, nil
				}
				r.plane.submit("j1")
				r.plane.broken("heartbeat", wrong, time.Hour)
				_ = r.work(func() { time.Sleep(time.Minute) })
				r.wantSaid("lease j1")
				if len(r.plane.failures) != 0 {
					t.Errorf("reported %+v of a lease that is lost", r.plane.failures)
				}
			})
		})
	}
}

func TestZ78HeartbeatThatIsRefusedStopsTheJob(t *testing.T) {
	for _, wrong := range []string{"409", "401", "403", "404"} {
		t.Run(wrong, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.plane.ttl = 60 * time.Second
				var stopped time.Duration
				var why error
				r.handler = func(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
					<-ctx.Done()
					stopped, why = time.Since(r.plane.start), context.Cause(ctx)
					return jobs.Result{}, why
				}
				r.plane.submit("j1")
				r.plane.brokenAt("heartbeat", wrong, 4)
				_ = r.work(func() { time.Sleep(70 * time.Second) })
				if stopped < 59*time.Second || stopped > 61*time.Second || !errors.Is(why, jobs.ErrLeaseLost) {
					t.Errorf("stopped after %s: %v, want after the fourth heartbeat, at 60 s", stopped, why)
				}
				if len(r.plane.failures) != 0 || len(r.plane.reports) != 0 {
					t.Errorf("reported %+v %+v of a lease that is lost", r.plane.failures, r.plane.reports)
				}
			})
		})
	}
}

func TestZ78TroubleWithHeartbeatsDoesNotStopTheJobUntilItsLeaseEnds(t *testing.T) {
	for _, wrong := range []string{"500", "503", "cut", "slow", "html", "truncated", "400", "insecure", "no route"} {
		t.Run(wrong+" for a while", func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.plane.ttl = 60 * time.Second
				r.handler = r.lasting(10 * time.Minute)
				r.plane.submit("j1")
				r.plane.fault = func(route string, _ int) string {
					if at := time.Since(r.plane.start); route == "heartbeat" && at > 2*time.Minute && at < 2*time.Minute+35*time.Second {
						return wrong
					}
					return ""
				}
				_ = r.work(func() { time.Sleep(11 * time.Minute) })
				r.wantSaid("lease j1", "result j1")
			})
		})
	}
	t.Run("for good", func(t *testing.T) {
		test(t, func(t *testing.T, r *rig) {
			r.plane.ttl = 60 * time.Second
			var stopped time.Duration
			r.handler = func(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
				<-ctx.Done()
				stopped = time.Since(r.plane.start)
				return jobs.Result{}, context.Cause(ctx)
			}
			r.plane.submit("j1")
			r.plane.fault = func(string, int) string {
				if time.Since(r.plane.start) > 30*time.Second {
					return "cut"
				}
				return ""
			}
			_ = r.work(func() { time.Sleep(2 * time.Minute) })
			// Extended last at 20 s, so it holds until 80 s; 3 s before, the job stops.
			if stopped < 70*time.Second || stopped > 80*time.Second {
				t.Errorf("stopped after %s, want shortly before 80 s", stopped)
			}
		})
	})
}

func TestZ45CanceledJobStopsAndIsReported(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.ttl = 60 * time.Second
		r.handler = untilStopped
		r.plane.submit("j1", "j2")
		r.plane.jobs["j2"].canceled = true // before it starts
		_ = r.work(func() {
			time.Sleep(30 * time.Second)
			r.plane.do(func() { r.plane.jobs["j1"].canceled = true })
			time.Sleep(time.Minute)
		})
		r.wantSaid("lease j1", "failed j1 CANCELED canceled", "lease j2", "failed j2 CANCELED canceled")
		if at := r.plane.times("failed j1"); at[0] > 43*time.Second {
			t.Errorf("canceled at 30 s, stopped at %s, want with the heartbeat at 40 s", at[0])
		}
	})
}

func TestZ45ProgressRidesOnHeartbeatsButNotTooOften(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.handler = func(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
			for i := range 1000 {
				report(jobs.Progress{Done: i, Total: 1000, Message: strings.Repeat("ж", 300)})
				time.Sleep(100 * time.Millisecond)
			}
			return r.put(ctx, job)
		}
		r.plane.submit("j1")
		_ = r.work(func() { time.Sleep(2 * time.Minute) })
		r.wantSaid("lease j1", "result j1")
		beats := r.plane.times("beat j1 ")
		if n := len(beats); n < 10 || n > 11 {
			t.Errorf("%d heartbeats with progress in 100 s, want one every 10 s", n)
		}
		if beats[0] > time.Second {
			t.Errorf("the first progress was sent after %s", beats[0])
		}
		j := r.plane.job("j1")
		if j.progress.Done < 890 || len(j.message) > 200 || strings.Contains(j.message, "\uFFFD") {
			t.Errorf("last progress %+v %q", j.progress, j.message)
		}
	})
}

func TestZ45ProgressThatIsRefusedDoesNotCostTheLease(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.handler = func(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
			report(jobs.Progress{Done: 1, Total: 3, Message: "refuse me"})
			return r.lasting(30*time.Minute)(ctx, job, report)
		}
		r.plane.submit("j1")
		r.plane.brokenAt("heartbeat", "400", 2) // the first with progress
		_ = r.work(func() { time.Sleep(40 * time.Minute) })
		r.wantSaid("lease j1", "result j1")
		if again := r.plane.times("beat j1 1/3"); len(again) != 0 {
			t.Errorf("what was refused was sent again after %s", again)
		}
	})
}

func TestZ58K10FailuresKeepTheirWords(t *testing.T) {
	tests := []struct {
		name      string
		err       error
		code      string
		message   string
		retryable bool
	}{
		{"plain", errors.New("pw.x exited with code 1"), "JOB_FAILED", "pw.x exited with code 1", true},
		{"coded", &jobs.Failure{Code: "QE_INPUT_ERROR", Final: true, Detail: "%%%%", Err: errors.New("bad namelist")}, "QE_INPUT_ERROR", "bad namelist", false},
		{"one after which the job is to run again", &jobs.Failure{Code: "EXIT_75", Retry: true, RetryAfter: time.Minute, Err: errors.New("exit 75")}, "EXIT_75", "exit 75", true},
		{"a strange code", &jobs.Failure{Code: "qe error: ü", Err: errors.New("x")}, "QE_ERROR", "x", true},
		{"words of the worker's own", errors.New("no progress in the SCF cycle"), "JOB_FAILED", "no progress in the SCF cycle", true},
		{"no text", errors.New(""), "JOB_FAILED", "JOB_FAILED", true},
		{"a long text", errors.New(strings.Repeat("ж", 2000)), "JOB_FAILED", strings.Repeat("ж", 500), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.handler = func(context.Context, jobs.Job, func(jobs.Progress)) (jobs.Result, error) {
					return jobs.Result{}, tt.err
				}
				r.plane.submit("j1")
				_ = r.work(func() { time.Sleep(time.Second) })
				if len(r.plane.failures) != 1 {
					t.Fatalf("reported %+v\n%s", r.plane.failures, r.log)
				}
				f := r.plane.failures[0]
				if f.ErrorCode != tt.code || f.ErrorMessage != tt.message || *f.Retryable != tt.retryable {
					t.Errorf("reported %+v retryable %v", f, *f.Retryable)
				}
			})
		})
	}
	away := func(context.Context, jobs.Job, func(jobs.Progress)) (jobs.Result, error) {
		return jobs.Result{}, jobs.ErrUnavailable
	}
	for _, tt := range []struct {
		name    string
		handler handler
		adjust  func(*worker.Worker)
		lasts   time.Duration
		said    string
	}{
		{"a timeout", untilStopped, func(w *worker.Worker) { w.JobTimeout = time.Minute }, 65 * time.Second, "JOB_TIMEOUT"},
		{"silence", untilStopped, func(w *worker.Worker) { w.StallTimeout = time.Minute }, 65 * time.Second, "JOB_STALLED"},
		{"trouble of the worker's", away, nil, 10 * time.Second, "WORKER_UNAVAILABLE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.handler, r.adjust = tt.handler, tt.adjust
				r.plane.submit("j1")
				_ = r.work(func() { time.Sleep(tt.lasts) })
				r.wantSaid("lease j1", "failed j1 "+tt.said+" retry")
			})
		})
	}
}

func TestZ81StoppingWorkerHandsItsJobBack(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.handler = untilStopped
		r.plane.submit("j1")
		_ = r.work(func() { time.Sleep(time.Minute) })
		r.wantSaid("lease j1", "failed j1 WORKER_SHUTDOWN back")
		if n := r.plane.job("j1").retries; n != 0 {
			t.Errorf("counted %d", n)
		}
	})
}

func TestZ81AnswerOnItsWayToAStoppingWorkerIsHandedBack(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.waits = true
		// The job is leased while the worker is told to stop; the answer takes a while.
		r.plane.fault = func(route string, n int) string {
			if route == "lease" && n == 1 {
				time.Sleep(300 * time.Millisecond)
			}
			return ""
		}
		r.plane.submit("j1")
		_ = r.work(func() { time.Sleep(100 * time.Millisecond) })
		r.wantSaid("lease j1", "failed j1 WORKER_SHUTDOWN back")
	})
}

func TestZ81DrainingWorkerFinishesItsJob(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.handler = r.lasting(65 * time.Second)
		r.plane.submit("j1", "j2")
		_ = r.work(func() { time.Sleep(time.Minute) }) // and 8 s to drain
		r.wantSaid("lease j1", "result j1")
	})
}

func TestRefusedWorkerGivesUp(t *testing.T) {
	for _, wrong := range []string{"401", "403"} {
		t.Run(wrong, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.plane.broken("", wrong, time.Hour)
				err := r.work(func() { time.Sleep(5 * time.Minute) })
				if !errors.Is(err, worker.ErrRefused) {
					t.Errorf("Run returned %v, want %v", err, worker.ErrRefused)
				}
				if e := (*gateway.Error)(nil); !errors.As(err, &e) {
					t.Errorf("Run returned %v, want a gateway.Error in it", err)
				}
			})
		})
	}
	t.Run("but not for what a proxy says", func(t *testing.T) {
		test(t, func(t *testing.T, r *rig) {
			r.plane.submit("j1")
			r.plane.broken("", "html", 10*time.Minute)
			if err := r.work(func() { time.Sleep(11 * time.Minute) }); err != nil {
				t.Errorf("Run returned %v", err)
			}
			r.wantSaid("lease j1", "result j1")
			r.wantLogged("not a gateway's", "hotel")
		})
	})
}

func TestWrongAddressIsRefused(t *testing.T) {
	for _, wrong := range []string{"no route", "404 page"} {
		t.Run(wrong, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.plane.broken("", wrong, time.Hour)
				err := r.work(func() { time.Sleep(5 * time.Minute) })
				if !errors.Is(err, worker.ErrRefused) || !strings.Contains(err.Error(), "is SOURCE the gateway's own address, without a path?") {
					t.Errorf("Run returned %v", err)
				}
			})
		})
	}
}

func TestLogTellsTheStoryOfAJob(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		runs := 0
		r.handler = func(ctx context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
			if runs++; runs > 1 {
				return r.put(ctx, job)
			}
			return jobs.Result{}, &jobs.Failure{Code: "QE_CRASHED", Err: errors.New("pw.x has crashed")}
		}
		r.plane.submit("j1")
		_ = r.work(func() { time.Sleep(5 * time.Minute) })
		r.wantSaid("lease j1", "failed j1 QE_CRASHED retry", "lease j1", "result j1")
		r.wantLogged(
			`level=INFO msg="job started" job=j1 attempt=1`,
			`level=INFO msg="failure delivered" job=j1 code=QE_CRASHED runs_again=true retries=1`,
			`level=INFO msg="job started" job=j1 attempt=2`,
		)
		if !regexp.MustCompile(`msg="job failed" job=j1 kind=zpe attempt=1 took=\S+ code=QE_CRASHED reason="pw.x has crashed"`).MatchString(r.log.String()) {
			t.Errorf("the failure is not in the log:\n%s", r.log)
		}
	})
}

func TestZ83NoSecretInTheLog(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.submit("j1", "j2")
		wrong := []string{"500", "401", "html", "cut", "lost", "truncated", "", "409"}
		r.plane.fault = func(_ string, n int) string { return wrong[n%len(wrong)] }
		_ = r.work(func() { time.Sleep(10 * time.Minute) })
		if log := r.log.String(); strings.Contains(log, "zpw_") || strings.Contains(log, "Bearer zp") || len(log) < 100 {
			t.Errorf("the log shows a token, or nothing:\n%s", log)
		}
		for _, sub := range []string{"journal", "late", "rejected"} {
			for _, f := range r.files(sub) {
				if text, err := os.ReadFile(f); err != nil || strings.Contains(string(text), "zpw_") {
					t.Errorf("%s shows a token: %v", f, err)
				}
			}
		}
	})
}

func TestZ45HeartbeatsGoOnWhileAJobTakesAllCPU(t *testing.T) {
	testrun.Once(t, "what takes the CPU is no code of ours")
	testrun.Long(t, "it takes much CPU")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // all the CPU there is for it, and some for others
	r := newRig(t)
	r.plane.ttl = 12 * time.Second // heartbeats come every 4 s and have 1 s each
	url := serveHandler(t, r.plane)
	tokens, err := gateway.OpenTokenFile(r.token)
	if err != nil {
		t.Fatal(err)
	}
	a := r.agent(clientOf(t, gateway.ClientConfig{URL: url, Tokens: tokens}))
	if err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { a.Run(ctx) })
	r.handler = func(ctx context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
		var enough atomic.Bool
		var spinning sync.WaitGroup
		for range 2 * runtime.GOMAXPROCS(0) {
			spinning.Go(func() {
				for !enough.Load() {
				}
			})
		}
		began := r.plane.times("lease j1")[0]
		r.plane.until(t, "heartbeats for more than a lease", func() bool { return lastBeat(r.plane, "j1") > began+r.plane.ttl })
		enough.Store(true)
		spinning.Wait()
		return r.put(ctx, job)
	}
	r.plane.submit("j1")
	running.Go(func() { _ = r.worker(a).Run(ctx) })
	r.plane.until(t, "the result", func() bool { return r.plane.jobs["j1"].status == "finished" })
	if n := r.plane.job("j1").retries; n != 0 {
		t.Errorf("the lease was lost %d times", n)
	}
}

// lastBeat returns when the last heartbeat for a job came that does not wait for a cancel,
// since the start of p. p.mu is held.
func lastBeat(p *plane, id string) (at time.Duration) {
	for _, e := range p.events {
		if strings.HasPrefix(e.what, "beat "+id) {
			at = e.at
		}
	}
	return at
}

func TestK17AnAgentOfOtherKindsAtAGatewayThatHasNone(t *testing.T) {
	tests := []struct {
		name string
		kind jobs.Kind // of zpe
		want []string
	}{
		{"one that runs zpe, too, runs that", "zpe", []string{"lease j1", "result j1"}},
		{"one that does not gets no job of zpe", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.plane.submit("j1")
				r.kinds = []jobs.Kind{"thumbnail"}
				r.kind = &tt.kind
				r.adjust = func(w *worker.Worker) { w.StartTimeout = time.Minute }
				err := r.work(func() { time.Sleep(2 * time.Minute) })
				if (err != nil) != (tt.want == nil) || err != nil && !strings.Contains(err.Error(), "KINDS_FILE") {
					t.Errorf("the worker ended with %v", err)
				}
				r.wantSaid(tt.want...)
			})
		})
	}
}

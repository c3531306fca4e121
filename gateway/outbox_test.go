package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// broken makes calls of a route go wrong until the given time after the start.
func (p *plane) broken(route, wrong string, until time.Duration) {
	p.fault = func(r string, _ int) string {
		if (route == "" || r == route) && time.Since(p.start) < until {
			return wrong
		}
		return ""
	}
}

// brokenAt makes the calls of a route with these numbers go wrong.
func (p *plane) brokenAt(route, wrong string, numbers ...int) {
	p.fault = func(r string, n int) string {
		if r == route && slices.Contains(numbers, n) {
			return wrong
		}
		return ""
	}
}

func TestZ79ResultWaitsForTheGatewayWhileOtherJobsRun(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	for _, wrong := range []string{"500", "503", "cut", "slow", "html", "401", "truncated", "insecure", "no route"} {
		t.Run(wrong, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.plane.submit("j1", "j2", "j3")
				r.plane.broken("result", wrong, time.Hour)
				_ = r.work(func() { time.Sleep(65 * time.Minute) })
				for _, id := range []string{"j1", "j2", "j3"} {
					j := r.plane.job(id)
					if j.status != "finished" || j.retries != 0 {
						t.Errorf("%s is %s after %d retries: its lease was to be kept alive\n%q", id, j.status, j.retries, r.plane.said())
					}
				}
				if at := r.plane.times("lease j3"); at[0] > 5*time.Minute {
					t.Errorf("the last job was leased after %s: results of others held it up", at[0])
				}
				if len(r.entries())+len(r.files("late"))+len(r.files("rejected")) != 0 || len(r.forgot()) != 3 {
					t.Errorf("left %v, forgot %v", r.entries(), r.forgot())
				}
			})
		})
	}
}

func TestZ79LostAnswerToAResultIsAskedForAgain(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.submit("j1")
		r.plane.brokenAt("result", "lost", 1, 2)
		_ = r.work(func() { time.Sleep(time.Minute) })
		r.wantSaid("lease j1", "result j1", "result j1 again", "result j1 again")
	})
}

func TestZ59LostAnswerToAFailureCountsOnce(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.handler = func(context.Context, jobs.Job, func(jobs.Progress)) (jobs.Result, error) {
			return jobs.Result{}, &jobs.Failure{Code: "X", Final: true, Err: errors.New("no")}
		}
		r.plane.submit("j1")
		r.plane.brokenAt("failed", "lost", 1, 2)
		_ = r.work(func() { time.Sleep(time.Minute) })
		r.wantSaid("lease j1", "failed j1 X final", "failed j1 X again", "failed j1 X again")
	})
}

func TestZ79ResultOutlivesTheWorkerThatMadeIt(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.submit("j1")
		r.plane.broken("result", "500", time.Minute)
		_ = r.work(func() { time.Sleep(30 * time.Second) })
		r.wantSaid("lease j1")
		if f := r.entries(); len(f) != 1 {
			t.Fatalf("left for the next worker: %v", f)
		}
		time.Sleep(5 * time.Minute)
		_ = r.work(func() { time.Sleep(time.Minute) })
		r.wantSaid("lease j1", "result j1")
		if got := r.plane.reports[0].LeaseID; got != "lease-1-of-j1" {
			t.Errorf("delivered under lease %s", got)
		}
	})
}

func TestZ79TooLargeResultIsReportedAsSuch(t *testing.T) {
	t.Run("by the gateway", func(t *testing.T) {
		test(t, func(t *testing.T, r *rig) {
			r.plane.maxBody = 200
			r.plane.submit("j1")
			_ = r.work(func() { time.Sleep(time.Minute) })
			r.wantSaid("lease j1", "failed j1 RESULT_TOO_LARGE final")
			r.wantAside("rejected", "status 413")
		})
	})
	t.Run("by the worker", func(t *testing.T) {
		test(t, func(t *testing.T, r *rig) {
			r.handler = func(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
				return jobs.Result{Object: "big"}, r.store.Put(ctx, "big", strings.NewReader(strings.Repeat("x", wire.MaxResultBody)))
			}
			r.plane.submit("j1")
			_ = r.work(func() { time.Sleep(time.Minute) })
			r.wantSaid("lease j1", "failed j1 RESULT_TOO_LARGE final")
			if r.plane.calls["result"] != 0 {
				t.Error("it was sent")
			}
		})
	})
}

func TestZ79ResultThatIsNoneIsReported(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"not JSON", "hello", "failed j1 RESULT_INVALID final"},
		{"cut off", someResult[:50], "failed j1 RESULT_INVALID final"},
		{"no object", `{"result":[1],"summary_text":"","freqs_csv":""}`, "failed j1 RESULT_INVALID final"},
		{"a text is missing", `{"result":{},"freqs_csv":""}`, "failed j1 RESULT_INVALID final"},
		{"meta is no object", `{"result":{},"summary_text":"","freqs_csv":"","meta":3}`, "failed j1 RESULT_INVALID final"},
		{"missing", "", "failed j1 RESULT_MISSING retry"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.handler = func(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
					if tt.text == "" {
						return jobs.Result{Object: "o"}, nil
					}
					return jobs.Result{Object: "o"}, r.store.Put(ctx, "o", strings.NewReader(tt.text))
				}
				r.plane.submit("j1")
				_ = r.work(func() { time.Sleep(10 * time.Second) })
				r.wantSaid("lease j1", tt.want)
			})
		})
	}
}

func TestZ79RejectedResultIsKeptAside(t *testing.T) {
	for _, wrong := range []string{"400", "404"} {
		t.Run(wrong, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.plane.submit("j1")
				r.plane.broken("result", wrong, time.Hour)
				_ = r.work(func() { time.Sleep(time.Minute) })
				if wrong == "400" {
					r.wantSaid("lease j1", "failed j1 RESULT_REJECTED final")
				} else {
					r.wantSaid("lease j1")
				}
				r.wantLogged("level=ERROR", "kept aside", "rejected")
				r.wantAside("rejected", "status "+wrong)
			})
		})
	}
}

// patient makes a worker that looks at its disk and polls seldom, for tests that
// take a week.
func (r *rig) patient() {
	r.plane.rests = true
	r.adjust = func(w *worker.Worker) {
		w.IdleCheck, w.JobTimeout, w.StallTimeout = time.Hour, 1000*time.Hour, 1000*time.Hour
	}
}

// wantAside checks that the result is in a directory, with its reason.
func (r *rig) wantAside(sub, why string) {
	r.t.Helper()
	files := r.files(sub)
	if len(files) != 1 {
		r.t.Fatalf("%s holds %v", sub, files)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		r.t.Fatal(err)
	}
	var got struct {
		JobID  string             `json:"job_id"`
		Why    string             `json:"why"`
		Report wire.ResultRequest `json:"report"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		r.t.Fatal(err)
	}
	if got.JobID != "j1" || !strings.Contains(got.Why, why) || !strings.Contains(string(got.Report.Result), "0.26640000000000003") || got.Report.LeaseID == "" {
		r.t.Errorf("kept %s", text)
	}
}

func TestZ57LateResultIsKeptAndTheJobRunsAgain(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.submit("j1")
		r.handler = r.lasting(10 * time.Second)
		r.plane.fault = func(route string, _ int) string { // the network is away for two leases
			at := time.Since(r.plane.start)
			if at > 5*time.Second && (at < 20*time.Minute || route == "lease" && at < 23*time.Minute) {
				return "cut"
			}
			return ""
		}
		_ = r.work(func() { time.Sleep(30 * time.Minute) })
		r.wantSaid("lease j1", "reaped j1", "late j1", "lease j1", "result j1")
		r.wantAside("late", "LEASE_LOST")
		r.wantLogged("came after its lease was lost", filepath.Join(r.dir, "late"))
		if j := r.plane.job("j1"); j.late == nil || j.status != "finished" {
			t.Errorf("the gateway has %+v", j)
		}
		if f := r.entries(); len(f) != 0 {
			t.Errorf("left behind: %v", f)
		}
	})
}

func TestZ54ResultOfAFinishedJobIsDropped(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.submit("j1")
		r.plane.fault = func(route string, n int) string {
			if route == "result" && n == 1 {
				r.plane.do(func() {
					j := r.plane.jobs["j1"]
					j.status, j.winner, j.result, j.lease = "finished", j.lease, "another", ""
				})
			}
			return ""
		}
		_ = r.work(func() { time.Sleep(time.Minute) })
		r.wantSaid("lease j1")
		r.wantLogged("ALREADY_FINISHED")
		if n := len(r.entries()) + len(r.files("late")) + len(r.files("rejected")); n != 0 || r.plane.calls["result"] != 1 {
			t.Errorf("%d files, %d calls", n, r.plane.calls["result"])
		}
	})
}

// leaseAndDie leases a job and leaves it to the next process.
func (r *rig) leaseAndDie() {
	r.t.Helper()
	a := r.agent(direct{r.plane})
	if err := a.Open(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() { a.Run(ctx); close(done) }()
	if _, err := a.Lease(ctx); err != nil {
		r.t.Error(err)
	}
	stop()
	<-done
	if err := a.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// direct is a plane without HTTP.
type direct struct{ *plane }

func (d direct) call(a answer, into any) error {
	text, _ := json.Marshal(a.body)
	if a.status >= 400 {
		var e wire.ErrorBody
		_ = json.Unmarshal(text, &e)
		return &gateway.Error{Status: a.status, Code: e.Error.Code, Message: e.Error.Message}
	}
	return json.Unmarshal(text, into)
}

func (d direct) Lease(_ context.Context, ask wire.LeaseRequest) (*wire.LeaseResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.tryLease(ask)
	if a.status == 204 {
		return nil, nil
	}
	var l wire.LeaseResponse
	return &l, d.call(a, &l)
}

func (d direct) Heartbeat(ctx context.Context, id string, ask wire.HeartbeatRequest) (a wire.HeartbeatResponse, err error) {
	text, _ := json.Marshal(ask)
	return a, d.call(d.beat(ctx, id, text), &a)
}

func (d direct) Result(_ context.Context, id string, ask wire.ResultRequest) (a wire.ReportResponse, err error) {
	text, _ := json.Marshal(ask)
	return a, d.call(d.result(id, text), &a)
}

func (d direct) Failed(_ context.Context, id string, ask wire.FailedRequest) (a wire.FailedResponse, err error) {
	text, _ := json.Marshal(ask)
	return a, d.call(d.failed(id, text), &a)
}

func TestZ80JobOfADeadWorkerIsReportedBeforeAnythingIsLeased(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.submit("j1", "j2")
		r.leaseAndDie()
		if f := r.entries(); len(f) != 1 {
			t.Fatalf("on disk: %v", f)
		}
		_ = r.work(func() { time.Sleep(time.Minute) })
		r.wantSaid("lease j1", "failed j1 WORKER_RESTART retry", "lease j2", "result j2", "lease j1", "result j1")
		if at := r.plane.times("failed j1"); at[0] > time.Second {
			t.Errorf("reported after %s", at[0])
		}
	})
}

func TestZ80WorkerStartsAlsoWhenTheGatewayIsAway(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.submit("j1", "j2")
		r.leaseAndDie()
		r.plane.broken("failed", "slow", 5*time.Minute)
		_ = r.work(func() { time.Sleep(8 * time.Minute) })
		if at := r.plane.times("lease j2"); len(at) != 1 || at[0] > 20*time.Second {
			t.Errorf("the next job was leased at %v, want after 15 s", at)
		}
		if j := r.plane.job("j1"); j.code != "WORKER_RESTART" {
			t.Errorf("the job of the dead worker: %+v", j)
		}
	})
}

func TestZ79OneProcessAtATime(t *testing.T) {
	r := newRig(t)
	a, b := r.agent(direct{r.plane}), r.agent(direct{r.plane})
	if err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := b.Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), "another worker of this machine uses it") {
		t.Errorf("a second agent: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Open(t.Context()); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
	_ = b.Close()
}

func TestZ79StateIsTheOwnersOnly(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.submit("j1")
		r.leaseAndDie()
		modes := map[string]os.FileMode{r.dir: 0o700, filepath.Join(r.dir, "lock"): 0o600, filepath.Join(r.dir, "journal"): 0o700}
		for _, f := range r.files("journal") {
			modes[f] = 0o600
		}
		for path, want := range modes {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v %v, want %v", path, info.Mode(), err, want)
			}
		}
		if err := os.Chmod(r.dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := r.agent(direct{r.plane}).Open(t.Context()); err == nil || !strings.Contains(err.Error(), "chmod 700") {
			t.Errorf("a directory that others may write: %v", err)
		}
	})
}

func TestZ79CorruptStateIsSetAside(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.submit("j1", "j2")
		r.leaseAndDie()
		if err := os.Mkdir(filepath.Join(r.dir, "leases"), 0o700); err != nil { // an earlier version's
			t.Fatal(err)
		}
		var text []byte
		for _, entry := range r.entries() {
			text = []byte(entry)
		}
		for name, content := range map[string][]byte{"half.json": text[:len(text)/2], "empty.json": nil, "copy.json": text, "binary": {0, 1, 2}} {
			if err := os.WriteFile(filepath.Join(r.dir, "leases", name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		// One that cannot be set aside stays, and the worker starts all the same.
		if err := errors.Join(os.Mkdir(filepath.Join(r.dir, "leases", "stuck"), 0o700), os.WriteFile(filepath.Join(r.dir, "corrupt", "stuck"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		_ = r.work(func() { time.Sleep(time.Minute) })
		if f := r.files("corrupt"); len(f) != 5 {
			t.Errorf("set aside: %v", f)
		}
		r.wantLogged("stuck", "half.json", "empty.json", "copy.json", "binary")
		if j := r.plane.job("j1"); j.code != "WORKER_RESTART" || j.status != "finished" {
			t.Errorf("the job whose file was whole: %+v", j)
		}
	})
}

func TestZ79FullDiskCostsNoResult(t *testing.T) {
	t.Run("before a lease is asked for", func(t *testing.T) {
		test(t, func(t *testing.T, r *rig) {
			_ = r.work(func() {
				time.Sleep(time.Second)
				r.breakDisk()
				r.plane.submit("j1")
				time.Sleep(time.Minute)
				r.plane.do(func() {
					if n := r.plane.calls["lease"]; n != 1 {
						t.Errorf("%d asks while a lease could not have been kept", n-1)
					}
				})
				r.mendDisk()
				time.Sleep(2 * time.Minute)
			})
			r.wantSaid("lease j1", "result j1")
		})
	})
	t.Run("when a lease comes", func(t *testing.T) {
		test(t, func(t *testing.T, r *rig) {
			r.plane.submit("j1")
			r.plane.fault = func(route string, n int) string {
				if route == "lease" && n == 1 {
					r.breakDisk()
				}
				return ""
			}
			_ = r.work(func() {
				time.Sleep(10 * time.Second)
				r.mendDisk()
				time.Sleep(2 * time.Minute)
			})
			r.wantSaid("lease j1", "failed j1 WORKER_UNAVAILABLE retry", "lease j1", "result j1")
		})
	})
	t.Run("when a job is handed back for it", func(t *testing.T) {
		test(t, func(t *testing.T, r *rig) {
			r.handler = func(ctx context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
				if r.plane.job("j1").retries == 0 {
					time.Sleep(5 * time.Second)
					r.breakDisk()
					return jobs.Result{}, fmt.Errorf("write a checkpoint: %w: no space left", jobs.ErrUnavailable)
				}
				return r.put(ctx, job)
			}
			r.plane.submit("j1")
			_ = r.work(func() {
				time.Sleep(time.Minute)
				r.mendDisk()
				time.Sleep(2 * time.Minute)
			})
			r.wantSaid("lease j1", "failed j1 WORKER_UNAVAILABLE retry", "lease j1", "result j1")
			if files := r.entries(); len(files) != 0 {
				t.Errorf("left %v", files)
			}
		})
	})
	t.Run("when a result comes", func(t *testing.T) {
		test(t, func(t *testing.T, r *rig) {
			r.handler = r.lasting(10 * time.Second)
			r.plane.submit("j1")
			_ = r.work(func() {
				time.Sleep(5 * time.Second)
				r.breakDisk()
				time.Sleep(time.Minute)
				r.mendDisk()
				time.Sleep(2 * time.Minute)
			})
			r.wantSaid("lease j1", "result j1")
		})
	})
}

func (r *rig) breakDisk() {
	if err := os.Rename(filepath.Join(r.dir, "journal"), filepath.Join(r.dir, "away")); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) mendDisk() {
	if err := os.Rename(filepath.Join(r.dir, "away"), filepath.Join(r.dir, "journal")); err != nil {
		r.t.Error(err)
	}
}

func TestZ79ChecksOfTheDiskDoNotDisturbEachOther(t *testing.T) {
	r := newRig(t)
	a := r.agent(nil)
	if err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	var checks sync.WaitGroup
	for range 4 {
		checks.Go(func() {
			for range 200 {
				if err := a.Check(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	checks.Wait()
}

func TestZ79UndeliverableResultIsGivenUpAfterAWeek(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "a week of waiting shows no race that the other tests do not")
	testrun.Long(t, "it takes much CPU")
	test(t, func(t *testing.T, r *rig) {
		r.plane.submit("j1")
		r.patient()
		r.plane.broken("result", "401", 30*24*time.Hour) // a token that is never replaced
		r.plane.do(func() { r.plane.tokens[theToken] = time.Now().Add(365 * 24 * time.Hour) })
		_ = r.work(func() { time.Sleep(7*24*time.Hour + time.Hour) })
		r.wantAside("rejected", "could not be delivered")
		r.wantLogged("level=ERROR", "given up")
	})
}

func TestZ79WhatIsKeptAsideIsSwept(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		_ = r.work(func() {
			for name, age := range map[string]time.Duration{"old.json": 8 * 24 * time.Hour, "young.json": 6 * 24 * time.Hour} {
				path := filepath.Join(r.dir, "late", name)
				if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
					t.Fatal(err)
				}
				at := time.Now().Add(-age)
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * time.Hour)
			if f := r.files("late"); len(f) != 1 || filepath.Base(f[0]) != "young.json" {
				t.Errorf("after the sweep: %v", f)
			}
		})
		r.wantLogged("deleted a file that was kept aside", "old.json")
	})
}

func TestFilesOfAFailedJobAreKeptWhileItMayComeBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	test(t, func(t *testing.T, r *rig) {
		r.patient()
		runs := 0
		r.handler = func(ctx context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
			if runs++; runs == 1 || job.ID == "j2" {
				return jobs.Result{}, errors.New("pw.x exited with code 1")
			}
			return r.put(ctx, job)
		}
		r.plane.submit("j1")
		_ = r.work(func() {
			time.Sleep(10 * time.Second)
			if f := r.entries(); len(f) != 1 || len(r.forgot()) != 0 {
				t.Errorf("after a failure that is run again: note %v, forgot %v", f, r.forgot())
			}
			time.Sleep(21 * time.Minute) // it came back here
			if f := r.entries(); len(f) != 0 || !slices.Equal(r.forgot(), []jobs.ID{"j1"}) {
				t.Errorf("after its result: note %v, forgot %v", f, r.forgot())
			}
			r.plane.submit("j2")
			time.Sleep(11 * time.Minute)
			r.plane.do(func() { r.plane.jobs["j2"].status, r.plane.queue = "finished", nil }) // elsewhere
			time.Sleep(6 * 24 * time.Hour)
			if len(r.forgot()) != 1 {
				t.Errorf("forgot %v within the week", r.forgot())
			}
		})
		r.plane.fault = nil
		_ = r.work(func() { time.Sleep(2 * 24 * time.Hour) }) // the note outlives the process
		if !slices.Equal(r.forgot(), []jobs.ID{"j1", "j2"}) || len(r.entries()) != 0 {
			t.Errorf("after the week: forgot %v, note %v", r.forgot(), r.entries())
		}
	})
}

func TestTooManyUndeliveredResultsStopTheLeasing(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	test(t, func(t *testing.T, r *rig) {
		for i := range 150 {
			r.plane.submit("j" + string(rune('a'+i/26)) + string(rune('a'+i%26)))
		}
		r.plane.broken("result", "500", time.Hour)
		_ = r.work(func() {
			time.Sleep(59 * time.Minute)
			if n := len(r.entries()); n < 100 || n > 120 {
				t.Errorf("%d results wait", n)
			}
			time.Sleep(30 * time.Minute)
		})
		if n := len(r.plane.times("result")); n != 150 {
			t.Errorf("%d of 150 results were delivered", n)
		}
	})
}

func TestZ79ResultsThatWaitForTheirTurnKeepTheirLeases(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, r *rig) {
		r.slots = 4
		for i := range 90 {
			r.plane.submit(fmt.Sprintf("j%02d", i))
		}
		r.plane.broken("result", "slow", 40*time.Minute)
		_ = r.work(func() {
			time.Sleep(10 * time.Second)
			r.plane.do(func() {
				if n := r.plane.calls["result"]; n != 2 {
					t.Errorf("%d results are on their way at once, want 2", n)
				}
			})
			time.Sleep(90 * time.Minute)
		})
		if reaped, late, done := r.plane.times("reaped"), r.plane.times("late"), r.plane.times("result"); len(reaped) != 0 || len(late) != 0 || len(done) != 90 {
			t.Errorf("%d leases ended, %d results came late, %d in time", len(reaped), len(late), len(done))
		}
	})
}

func TestZ79DeliveryWaitsAsLongAsTheGatewaySays(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.submit("j1")
		var calls []time.Duration
		r.plane.fault = func(route string, n int) string {
			if route != "result" {
				return ""
			}
			r.plane.do(func() { calls = append(calls, time.Since(r.plane.start)) })
			if n < 3 {
				return "503"
			}
			return ""
		}
		_ = r.work(func() { time.Sleep(10 * time.Minute) })
		if len(calls) != 3 || calls[1]-calls[0] < 77*time.Second || calls[2]-calls[1] < 77*time.Second {
			t.Errorf("tried after %s; the gateway says 77 s each time", calls)
		}
	})
}

func TestZ57JobWhoseResultIsLateHasNotSucceeded(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.plane.submit("j1")
		r.plane.brokenAt("result", "409", 1)
		_ = r.work(func() { time.Sleep(time.Minute) })
		r.wantLogged("came after its lease was lost")
		if log := r.log.String(); strings.Contains(log, "job succeeded") {
			t.Errorf("the log says that it has succeeded:\n%s", log)
		}
	})
}

func TestZ79ResultThatIsGivenUpIsNotSaidToBeKeptWhenItIsGone(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "a week of waiting shows no race that the other tests do not")
	testrun.Long(t, "it takes much CPU")
	test(t, func(t *testing.T, r *rig) {
		r.plane.submit("j1")
		r.patient()
		r.plane.broken("result", "401", 30*24*time.Hour)
		r.plane.do(func() { r.plane.tokens[theToken] = time.Now().Add(365 * 24 * time.Hour) })
		_ = r.work(func() {
			time.Sleep(7*24*time.Hour - time.Nanosecond) // an attempt before it is given up would miss it, too
			if err := r.store.Delete(t.Context(), "results/j1/result.json"); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
		})
		if f := r.files("rejected"); len(f) != 0 {
			t.Errorf("kept %v", f)
		}
		r.wantLogged("level=ERROR", "given up and lost")
	})
}

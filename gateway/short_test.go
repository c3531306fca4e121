package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// inline is a handler that does not store its results, and writes two lines.
func (r *rig) inline(_ context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
	return jobs.Result{Object: "results/" + string(job.ID) + "/result.json", Text: someResult}, nil
}

// tally makes the worker one of kind tally alone, whose jobs write two lines.
func (r *rig) tally(run handler) {
	none := jobs.Kind("")
	r.kind, r.kinds, r.plane.kinds = &none, []jobs.Kind{"tally"}, []string{"tally"}
	r.adjust = func(w *worker.Worker) {
		w.Handlers = map[jobs.Kind]worker.Handler{"tally": writing{run, func(_ context.Context, log func(string)) error {
			log("one")
			log("two")
			return nil
		}}}
	}
}

// A job that ends at once costs a lease and a result, which it shares with others: no heartbeat, and no file.
func TestK18AShortJobCostsALeaseAndAResult(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.slots, r.plane.batches, r.plane.takes = 8, true, 10*time.Millisecond
		r.tally(r.inline)
		var ids []string
		for i := range 24 {
			ids = append(ids, "j"+strconv.Itoa(i))
			r.plane.submitTally(ids[i])
		}
		_ = r.work(func() { time.Sleep(time.Minute) })
		beats := 0
		for _, id := range ids {
			j := r.plane.job(id)
			if j.status != "finished" {
				t.Errorf("%s is %s", id, j.status)
			}
			if len(j.log) != 2 {
				t.Errorf("the log of %s is %q", id, j.log)
			}
			beats += len(r.plane.times("beat " + id))
		}
		// The first jobs come before it is known that the gateway takes batches, and so may take lines with a result.
		if beats > 1 {
			t.Errorf("%d heartbeats", beats)
		}
		if len(r.forgot()) != 0 || len(r.entries()) != 0 {
			t.Errorf("files of %v were looked for, left %v", r.forgot(), r.entries())
		}
	})
}

// A result that is only in its entry arrives although the worker is killed before.
func TestK18AResultThatIsNotStoredOutlivesTheWorker(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.tally(r.inline)
		r.plane.submitTally("j1")
		r.plane.broken("result", "500", time.Minute)
		_ = r.work(func() { time.Sleep(10 * time.Second) })
		if entries := r.entries(); len(entries) != 1 {
			t.Fatalf("on disk: %v", entries)
		}
		_ = r.work(func() { time.Sleep(10 * time.Minute) })
		if j := r.plane.job("j1"); j.status != "finished" || j.retries != 0 || !strings.Contains(j.result, "123456789012345678901234567890") {
			t.Errorf("the gateway has %+v", j)
		}
		if entries := r.entries(); len(entries) != 0 {
			t.Errorf("left on disk: %v", entries)
		}
	})
}

// What a short job has come to is on disk only if it does not arrive at once. What took longer is there before.
func TestK18TheEndOfAShortJobIsOnDiskIfItDoesNotArrive(t *testing.T) {
	for _, tt := range []struct {
		name  string
		kind  string        // tally if empty
		takes time.Duration // the job
		fails bool          // once, where others succeed at once
		wrong string        // with the first attempt to deliver what it has come to
		seen  []string      // what is on disk at each attempt
		later string        // what is there when the first one has taken 10 s
	}{
		{name: "it arrives", seen: []string{"running"}},
		{name: "it takes two attempts", wrong: "500", seen: []string{"running", "result"}},
		{name: "the gateway hangs", wrong: "slow", seen: []string{"running", "result"}, later: "result"},
		{name: "it has failed, and the gateway hangs", fails: true, wrong: "slow", seen: []string{"running", "failed", "running"}, later: "failed"},
		{name: "the job is of kind zpe", kind: "zpe", seen: []string{"result"}},
		{name: "the job took a second", takes: time.Second, seen: []string{"result"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.tally(func(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
					time.Sleep(tt.takes)
					if tt.fails && r.plane.job("j1").retries == 0 {
						return jobs.Result{}, errors.New("not yet")
					}
					return r.inline(ctx, job, report)
				})
				onDisk := func() string {
					for _, text := range r.entries() {
						var e struct{ State string }
						if err := json.Unmarshal([]byte(text), &e); err != nil {
							t.Error(err)
						}
						return e.State
					}
					return "none"
				}
				var seen []string
				r.plane.fault = func(route string, n int) string {
					if route != "result" && route != "failed" {
						return ""
					}
					there := onDisk()
					r.plane.do(func() { seen = append(seen, there) })
					if n == 1 && tt.fails == (route == "failed") {
						return tt.wrong
					}
					return ""
				}
				if tt.kind == "zpe" {
					r.kind, r.kinds, r.plane.kinds, r.adjust = nil, nil, nil, nil
					r.plane.submit("j1")
				} else {
					r.plane.submitTally("j1")
				}
				_ = r.work(func() {
					time.Sleep(10 * time.Second)
					if later := onDisk(); tt.later != "" && later != tt.later {
						t.Errorf("while the first attempt hangs, there is %s on disk, want %s", later, tt.later)
					}
					time.Sleep(2 * time.Hour)
				})
				if !slices.Equal(seen, tt.seen) {
					t.Errorf("there was on disk %q, want %q", seen, tt.seen)
				}
				if j := r.plane.job("j1"); j.status != "finished" || j.retries > 0 != tt.fails || len(r.entries()) != 0 {
					t.Errorf("the gateway has %+v, on disk is %v", j, r.entries())
				}
			})
		})
	}
}

// A result that has arrived is not written any more, also while the files of its job are being deleted. The slot is free then.
func TestK18AResultThatHasArrivedIsNotWrittenWhileFilesAreDeleted(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.forgets = time.Minute
		r.tally(r.lasting(0))
		r.plane.submitTally("j1")
		r.plane.submitTally("j2")
		_ = r.work(func() { time.Sleep(10 * time.Minute) })
		at := r.plane.times("lease j2")
		if len(at) != 1 || at[0] > 30*time.Second {
			t.Errorf("the next job was leased at %v", at)
		}
		if left := r.entries(); len(left) != 0 || len(r.forgot()) != 2 {
			t.Errorf("on disk is %v, files of %v were deleted", left, r.forgot())
		}
	})
}

// A full disk keeps no result of a short job from the gateway, and does not make it one of a lost lease.
func TestK18TheEndOfAShortJobIsDeliveredBesideAFullDisk(t *testing.T) {
	for name, room := range map[string]bool{"that stays full": false, "that has room later, while the gateway is away": true} {
		t.Run(name, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.tally(r.inline)
				r.plane.fault = func(route string, n int) string {
					switch {
					case route != "result":
						return ""
					case n == 1:
						r.breakDisk()
						return "500"
					case room && time.Since(r.plane.start) < 10*time.Minute:
						return "500"
					}
					return ""
				}
				r.plane.submitTally("j1")
				_ = r.work(func() {
					time.Sleep(time.Minute)
					if room {
						r.mendDisk()
						time.Sleep(5 * time.Minute)
						if left := fmt.Sprint(r.entries()); !strings.Contains(left, `"result"`) {
							t.Errorf("on disk is %s", left)
						}
						time.Sleep(time.Hour)
					}
				})
				if !room {
					r.mendDisk()
				}
				r.wantSaid("lease j1", "result j1")
				if log := r.log.String(); !strings.Contains(log, "job succeeded") || strings.Contains(log, "handed back") {
					t.Errorf("the worker has not taken note of the end:\n%s", log)
				}
			})
		})
	}
}

// When its lease was lost, the job may come back to this worker, which then has its result.
func TestK18AResultThatIsNotStoredIsKeptForTheNextAttempt(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.tally(r.inline)
		r.plane.submitTally("j1")
		r.plane.ttl = time.Minute
		r.plane.fault = func(route string, _ int) string {
			switch now := time.Since(r.plane.start); {
			case route == "lease" && now > 30*time.Second: // it is another worker's from then on
				return "503"
			case route != "lease" && now < 5*time.Minute: // longer than the lease
				return "500"
			}
			return ""
		}
		var stored error
		_ = r.work(func() {
			time.Sleep(time.Hour)
			_, stored = r.store.Stat(t.Context(), "results/j1/result.json")
		})
		if stored != nil {
			t.Errorf("the result is not in the store: %v\n%q", stored, r.plane.said())
		}
		if len(r.files("late")) != 1 {
			t.Errorf("kept aside: %v", r.files("late"))
		}
	})
}

// Of a job that runs for a while the first progress comes soon.
func TestK17ProgressOfAKindIsSentAfterASecond(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		r.tally(func(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
			report(jobs.Progress{Done: 1, Total: 3, Message: "at work"})
			time.Sleep(time.Minute)
			return r.put(ctx, job)
		})
		r.plane.submitTally("j1")
		_ = r.work(func() { time.Sleep(2 * time.Minute) })
		beats := r.plane.times("beat j1 1/3 at work")
		if len(beats) == 0 || beats[0] > 5*time.Second {
			t.Errorf("progress was sent after %v, want within seconds\n%q", beats, r.plane.said())
		}
	})
}

// Where files of the job may be, they are looked for when it has ended.
func TestK18FilesOfAJobWithInputsAreForgotten(t *testing.T) {
	for name, job := range map[string]jobs.Job{"one": {Input: "a"}, "several": {Inputs: []string{"a", "b"}}} {
		t.Run(name, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				r.tally(r.inline)
				r.plane.submitTally("j1")
				payload := map[string]any{"params": map[string]any{}}
				if job.Input != "" {
					payload["input"] = job.Input
				} else {
					payload["input"] = job.Inputs
				}
				text, err := json.Marshal(payload)
				if err != nil {
					t.Fatal(err)
				}
				r.plane.jobs["j1"].payload = string(text)
				_ = r.work(func() { time.Sleep(time.Minute) })
				if !slices.Equal(r.forgot(), []jobs.ID{"j1"}) {
					t.Errorf("forgot %v\n%q", r.forgot(), r.plane.said())
				}
			})
		})
	}
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/worker/memory"
)

// other adds a job of a kind that the worker does not have.
func (r *rig) other(job jobs.Job) {
	job.Kind = "other"
	r.q.Add(memory.Message{Job: job})
}

func TestK13JobOfAnotherKindIsLeftToOthers(t *testing.T) {
	inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
		r.other(jobs.Job{ID: "k", Payload: `{"dpi": 60}`})
		r.start()
		r.after(5 * time.Second)
		r.wantTold("nack k")
		r.wantStatus("k", `queued 0% no worker for kind "other" has taken it yet`)
		e, err := r.status.Get(t.Context(), "k")
		job, err2 := r.status.Job(t.Context(), e)
		if err = errors.Join(err, err2); err != nil || job.Kind != "other" || job.Payload != `{"dpi": 60}` || e.Detail.Worker != "" || e.Detail.Attempt != 0 {
			t.Errorf("on record as %+v, %v, worker %q, attempt %d; want it whole, and without a worker", job, err, e.Detail.Worker, e.Detail.Attempt)
		}
		if found, _, err := r.status.List(t.Context(), status.Query{State: jobs.Queued, Limit: 10}); err != nil || len(found) != 1 {
			t.Errorf("%d jobs are listed as queued, %v; want 1", len(found), err)
		}
		r.after(time.Hour)
		if n := strings.Count(r.q.told(), "nack k"); n < 60 || n > 360 {
			t.Errorf("it was left %d times within the hour, want once in 10 to 60 s", n)
		}
		r.q.add("j") // others are not kept from running
		r.after(2 * time.Second)
		r.wantStatus("j", "completed 100% Processing completed!")
		families, err := r.worker.Metrics.Registry.Gather()
		if text := strings.ReplaceAll(fmt.Sprint(families), "  ", " "); err != nil || !strings.Contains(text, `label:{name:"reason" value:"other_kind"} counter:{value:`) {
			t.Errorf("no metric counts it, %v:\n%s", err, text)
		}
		if !strings.Contains(r.log.String(), "no handler for this kind, job left to other workers") {
			t.Errorf("the log does not say so:\n%s", r.log)
		}
	})
}

func TestK13JobFailsOnceNoWorkerHasHadItsKindForLong(t *testing.T) {
	tests := []struct {
		name  string
		job   jobs.Job
		limit time.Duration
		live  bool // another worker has the kind
		waits time.Duration
		fails time.Duration // 0 for never
	}{
		{"after a day", jobs.Job{ID: "k"}, 0, false, 23*time.Hour + 58*time.Minute, 24*time.Hour + 2*time.Minute},
		{"counted from when it was submitted", jobs.Job{ID: "k", Submitted: time.Date(1999, 12, 31, 14, 0, 0, 0, time.UTC)}, 0, false, 13 * time.Hour, 14*time.Hour + 2*time.Minute},
		{"or as the settings say", jobs.Job{ID: "k"}, time.Hour, false, 50 * time.Minute, 62 * time.Minute},
		{"at once", jobs.Job{ID: "k"}, 1, false, 0, time.Second},
		{"never while a live worker has it", jobs.Job{ID: "k"}, 10 * time.Minute, true, 2 * time.Hour, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			letters := &pile{}
			inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
				r.worker.KindTimeout, r.worker.DeadLetters, r.worker.IdleCheck = tt.limit, letters, time.Hour
				if tt.live {
					m := status.New(r.rdb).Member(status.Worker{Kinds: []jobs.Kind{"other"}})
					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					go func() {
						for jobs.Sleep(ctx, 10*time.Second) == nil {
							_ = m.Pulse(ctx, 0, false, "")
						}
					}()
				}
				r.other(tt.job)
				r.start()
				r.after(tt.waits)
				if tt.waits > 0 {
					r.wantStatus("k", `queued 0% no worker for kind "other" has taken it yet`)
				}
				if tt.fails == 0 {
					return
				}
				r.after(tt.fails - tt.waits)
				r.wantStatus("k", `failed 0%: no worker of this fleet runs jobs of kind "other"`)
				if e, err := r.status.Get(t.Context(), "k"); err != nil || e.Detail.Code != "NO_WORKER_FOR_KIND" {
					t.Errorf("code %q, %v", e.Detail.Code, err)
				}
				if told := r.q.told(); !strings.HasSuffix(told, "ack k") || letters.count() != 1 {
					t.Errorf("the source was told %q, and there are %d dead letters; want an ack and one", told, letters.count())
				}
			})
		})
	}
}

func TestK13JobThatIsLeftKeepsWhatIsOnRecord(t *testing.T) {
	inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
		other := jobs.Job{ID: "k", Kind: "other"}
		claim := func() jobs.Claim {
			t.Helper()
			c, err := r.status.Store.Claim(t.Context(), other, time.Hour, jobs.Claim{})
			if err != nil || c.Verdict != jobs.Granted {
				t.Fatalf("claim: %+v, %v", c, err)
			}
			return c
		}
		c := claim()
		r.other(other)
		r.start()
		r.after(5 * time.Minute)
		r.wantStatus("k", "processing 0% Processing started...") // it runs elsewhere, and this is a second message
		if _, err := r.status.Store.Retry(t.Context(), c, jobs.Outcome{State: jobs.Failed, Reason: "exit 3", Retry: true, RetryAfter: time.Hour}); err != nil {
			t.Fatal(err)
		}
		r.after(5 * time.Minute)
		r.wantStatus("k", "queued 0% attempt 1 failed: exit 3; next in 1 h")
		r.after(time.Hour)
		if _, err := r.status.Store.Finish(t.Context(), claim(), jobs.Outcome{State: jobs.Succeeded}); err != nil {
			t.Fatal(err)
		}
		r.after(2 * time.Minute)
		if told := r.q.told(); !strings.HasSuffix(told, "ack k") {
			t.Errorf("the source was told %q, want the message of a job that has ended acked", told)
		}
		if e, err := r.status.Get(t.Context(), "k"); err != nil || e.State() != jobs.Succeeded || e.Detail.Attempt != 2 {
			t.Errorf("%+v, %v; want it to have succeeded", e, err)
		}
	})
}

func TestK13JobOfAnotherKindIsLeftThoughRedisIsAway(t *testing.T) {
	inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
		r.start()
		r.after(time.Second)
		r.status.cut(true)
		r.other(jobs.Job{ID: "k"})
		r.after(10 * time.Second)
		r.wantTold("nack k")
		r.status.cut(false)
		r.after(2 * time.Minute)
		r.wantStatus("k", `queued 0% no worker for kind "other" has taken it yet`)
	})
}

func TestK13WorkerThatOnlyGetsOtherKindsIsIdle(t *testing.T) {
	inBubble(t, takes(time.Second), func(_ *testing.T, r *rig) {
		r.worker.IdleExit, r.worker.Pools = 10*time.Minute, []Pool{{Slots: 3}}
		for i := range 20 {
			r.other(jobs.Job{ID: jobs.ID(fmt.Sprintf("k%d", i))})
		}
		began := time.Now()
		r.start()
		r.wantLeft(began, 10*time.Minute, 11*time.Minute, `why="no job has come for 10m0s"`)
	})
}

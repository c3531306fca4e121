package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker/memory"
)

// retrying is a handler whose jobs fail as often as retries says, and one time more if last is
// set. It remembers when each attempt began and what it was told of earlier ones.
type retrying struct {
	handler
	retries int
	after   time.Duration
	last    error // of the attempt after the retries; nil for success
	took    time.Duration

	mu       sync.Mutex
	began    []time.Time
	failures []int
}

func (h *retrying) RunAttempt(ctx context.Context, a jobs.Attempt) (jobs.Result, error) {
	h.mu.Lock()
	h.began, h.failures = append(h.began, time.Now()), append(h.failures, a.Failures)
	h.mu.Unlock()
	if err := jobs.Sleep(ctx, h.took); err != nil && a.Failures < h.retries {
		return jobs.Result{}, &jobs.Failure{Code: "STOPPED", Err: err, Retry: true, RetryAfter: h.after}
	}
	if a.Failures < h.retries {
		return jobs.Result{}, &jobs.Failure{Code: "EXIT_3", Err: errors.New("exit 3: token=abcdef"), Retry: true, RetryAfter: h.after}
	}
	return jobs.Result{Object: "results/" + string(a.Job.ID) + "/result.json"}, h.last
}

// wantBegan compares how long after the first attempt the others began.
func (h *retrying) wantBegan(t *testing.T, want ...time.Duration) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var got []time.Duration
	for i, at := range h.began {
		got = append(got, at.Sub(h.began[0]).Round(time.Second))
		if h.failures[i] != i {
			t.Errorf("attempt %d was told of %d failures", i+1, h.failures[i])
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("attempts began after %v, want %v", got, want)
	}
}

func TestK10FailedAttemptIsMadeAgainWhenItsTimeHasCome(t *testing.T) {
	h := &retrying{retries: 2, after: 10 * time.Second}
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.start()
		r.after(5 * time.Second)
		r.wantTold("nack j")
		r.wantStatus("j", "queued 0% attempt 1 failed: exit 3: token=[redacted]; next in 10 s")
		e, err := r.status.Get(t.Context(), "j")
		if err != nil || e.Detail.Code != "EXIT_3" || time.Until(e.Detail.Next).Round(time.Second) != 5*time.Second {
			t.Errorf("detail %+v, %v; want a code, and the next attempt in 5 s", e.Detail, err)
		}
		r.after(10 * time.Second)
		r.wantStatus("j", "queued 0% attempt 2 failed: exit 3: token=[redacted]; next in 10 s")
		r.after(10 * time.Second)
		r.wantTold("nack j, nack j, ack j")
		r.wantStatus("j", "completed 100% Processing completed!")
		h.wantBegan(t, 0, 10*time.Second, 20*time.Second)
		if e, err := r.status.Get(t.Context(), "j"); err != nil || e.Detail.Attempt != 3 || e.Detail.Crashes != 0 || e.Detail.Code != "" || !e.Detail.Next.IsZero() {
			t.Errorf("detail %+v, %v; want 3 attempts, no crash and nothing of the failures", e.Detail, err)
		}
	}, "j")
}

func TestK10FailureAfterTheLastRetryIsFinal(t *testing.T) {
	tests := []struct {
		name string
		last error
		want string
	}{
		{"an error", errors.New("exit 4"), "failed 0%: exit 4"},
		{"a failure that asks for nothing", &jobs.Failure{Err: errors.New("exit 4")}, "failed 0%: exit 4"},
		{"a failure that is final, whatever else it says", &jobs.Failure{Err: errors.New("exit 65"), Final: true, Retry: true}, "failed 0%: exit 65"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			letters := &pile{}
			inBubble(t, &retrying{retries: 1, after: time.Second, last: tt.last}, func(t *testing.T, r *rig) {
				r.worker.DeadLetters = letters
				r.start()
				r.after(500 * time.Millisecond)
				r.wantTold("nack j")
				if n := letters.count(); n != 0 {
					t.Errorf("%d dead letters before the last attempt, want none", n)
				}
				r.after(5 * time.Second)
				r.wantTold("nack j, ack j")
				r.wantStatus("j", tt.want)
				if n := letters.count(); n != 1 {
					t.Errorf("%d dead letters, want 1", n)
				}
			}, "j")
		})
	}
}

// pile counts dead letters.
type pile struct {
	mu sync.Mutex
	n  int
}

func (p *pile) Add(context.Context, jobs.Lease, DeadLetterInfo) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	return nil
}

func (p *pile) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// Pub/Sub keeps a message back for 600 s at most, and may deliver it twice at any time.
func TestK10MessageThatComesTooEarlyWaits(t *testing.T) {
	h := &retrying{retries: 1, after: 25 * time.Minute}
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.q.longest = 600 * time.Second
		r.worker.Claims = r.status
		r.start()
		r.after(time.Minute)
		r.q.Add(memory.Message{Job: jobs.Job{ID: "j", Kind: "test"}}) // once more
		r.after(23 * time.Minute)
		r.wantStatus("j", "queued 0% attempt 1 failed: exit 3: token=[redacted]; next in 25 min")
		r.after(2 * time.Minute)
		h.wantBegan(t, 0, 25*time.Minute)
		r.wantStatus("j", "completed 100% Processing completed!")
		if log := r.log.String(); strings.Contains(log, "elsewhere") || !strings.Contains(log, "job waits for its next attempt") {
			t.Errorf("the log is not about a job that waits:\n%s", log)
		}
		if told := r.q.told(); strings.Contains(told, "return") || !strings.HasSuffix(told, "nack j, ack j, ack j") {
			t.Errorf("the source was told %q, want two acks, and no lease handed back for others", told)
		}
	}, "j")
}

func TestK10RedisAwayWhileAFailureIsRecorded(t *testing.T) {
	t.Run("for a while", func(t *testing.T) {
		h := &retrying{retries: 1, after: 10 * time.Second, took: time.Second}
		inBubble(t, h, func(t *testing.T, r *rig) {
			r.start()
			r.after(900 * time.Millisecond)
			r.status.cut(true)
			r.after(time.Minute)
			r.wantTold("")
			r.status.cut(false)
			r.after(time.Minute)
			r.wantTold("nack j, ack j")
			if n := len(h.began); n != 2 {
				t.Errorf("%d attempts, want 2", n)
			}
		}, "j")
	})
	t.Run("its answers are lost", func(t *testing.T) {
		h := &retrying{retries: 2, after: 10 * time.Second, took: time.Second}
		inBubble(t, h, func(t *testing.T, r *rig) {
			r.start()
			r.after(900 * time.Millisecond)
			r.status.lose(true)
			r.after(time.Minute)
			r.status.lose(false)
			r.after(time.Minute)
			r.wantTold("nack j, nack j, ack j")
			for i, n := range h.failures { // each is counted once
				if n != i {
					t.Errorf("attempt %d was told of %d failures", i+1, n)
				}
			}
		}, "j")
	})
	t.Run("for longer than an outcome is kept", func(t *testing.T) {
		h := &retrying{retries: 1, after: 10 * time.Second, took: time.Second}
		inBubble(t, h, func(t *testing.T, r *rig) {
			r.worker.SettleTimeout = time.Minute
			r.start()
			r.after(900 * time.Millisecond)
			r.status.cut(true)
			r.after(5 * time.Minute)
			r.wantTold("nack j")
			r.status.cut(false)
			r.after(5 * time.Minute)
			if told := r.q.told(); !strings.HasSuffix(told, "ack j") {
				t.Errorf("the source was told %q, want the job to run again", told)
			}
			if got := fmt.Sprint(h.failures); got != "[0 0 1]" {
				t.Errorf("attempts were told of %s failures, want [0 0 1]: what was not recorded does not count", got)
			}
		}, "j")
	})
}

func TestK10WaitingJobThatIsCanceledEndsAtOnce(t *testing.T) {
	inBubble(t, &retrying{retries: 1, after: 10 * time.Minute}, func(t *testing.T, r *rig) {
		r.start()
		r.after(time.Minute)
		if state, err := r.status.Cancel(t.Context(), "j"); err != nil || state != jobs.Canceled {
			t.Errorf("cancel: %s, %v; want it canceled at once", state, err)
		}
		r.after(10 * time.Minute)
		r.wantTold("nack j, ack j")
		r.wantStatus("j", "canceled 0% Canceled")
	}, "j")
}

// A time limit ends an attempt. Whether the job runs again is for its kind to say.
func TestK10AttemptThatIsTooLongMayBeMadeAgain(t *testing.T) {
	h := &retrying{retries: 1, after: 10 * time.Second, took: time.Hour}
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.worker.JobTimeout = time.Minute
		r.start()
		r.after(65 * time.Second)
		r.wantStatus("j", "queued 0% attempt 1 failed: job timeout: it did not end within 1m0s; next in 10 s")
		r.after(2 * time.Minute)
		r.wantTold("nack j, ack j")
		h.wantBegan(t, 0, 70*time.Second)
	}, "j")
}

func TestK10StoppingWorkerDoesNotWaitForTheNextAttempt(t *testing.T) {
	inBubble(t, &retrying{retries: 1, after: 10 * time.Minute}, func(_ *testing.T, r *rig) {
		r.start()
		r.after(time.Minute)
		r.stops(time.Second)
		r.wantTold("nack j")
	}, "j")
}

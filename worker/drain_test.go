package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/batchfleet/batchfleet/jobs"
)

// asked is a check that tells of an operator's wish as well.
func (r *rig) asked() func(context.Context) error {
	return func(ctx context.Context) error {
		if err := r.status.err(ctx); err != nil {
			return err
		}
		draining, err := r.status.Ready(ctx)
		if err == nil && draining {
			err = ErrDraining
		}
		return err
	}
}

func (r *rig) drain(on bool) {
	r.t.Helper()
	if changed, err := r.status.SetDraining(r.t.Context(), on); err != nil || !changed {
		r.t.Fatalf("set draining: %v, %v", changed, err)
	}
}

// wantGauges compares what a worker tells of whether it takes jobs.
func (r *rig) wantGauges(ready, draining float64) {
	r.t.Helper()
	if got := testutil.ToFloat64(r.worker.Metrics.ready); got != ready {
		r.t.Errorf("batchfleet_worker_ready is %v, want %v", got, ready)
	}
	if got := testutil.ToFloat64(r.worker.Metrics.draining); got != draining {
		r.t.Errorf("batchfleet_worker_draining is %v, want %v", got, draining)
	}
}

func TestDrainingWorkerFinishesItsJobAndTakesNoOther(t *testing.T) {
	h := handler{run: func(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
		return jobs.Result{}, jobs.Sleep(ctx, time.Minute)
	}}
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.worker.Checks["redis"] = r.asked()
		r.start()
		r.after(30 * time.Second)
		r.drain(true)
		r.after(5 * time.Second)
		if err := r.worker.Ready(); err == nil || err.Error() != "draining: asked by an operator" {
			t.Errorf("5 s after it was asked the worker is ready: %v", err)
		}
		r.wantGauges(0, 1)
		if n := strings.Count(r.log.String(), "level=INFO msg=\"no jobs are taken"); n != 1 {
			t.Errorf("the log tells of it %d times, want once:\n%s", n, r.log)
		}
		r.wantStatus("a", "processing 0% Processing started...")
		if held, err := r.status.Held(t.Context()); err != nil || len(held) != 1 || held[0].Job != "a" {
			t.Errorf("held: %v, %v", held, err)
		}
		r.after(10 * time.Minute)
		r.wantTold("ack a")
		r.wantStatus("b", "nothing")
		if held, err := r.status.Held(t.Context()); err != nil || len(held) != 0 {
			t.Errorf("held: %v, %v", held, err)
		}
		if strings.Contains(r.log.String(), "level=WARN") {
			t.Errorf("the log warns of it:\n%s", r.log)
		}
		r.drain(false)
		r.after(5 * time.Second)
		if err := r.worker.Ready(); err != nil {
			t.Errorf("5 s after it was called off: %v", err)
		}
		r.wantGauges(1, 0)
		r.wantStatus("b", "processing 0% Processing started...")
		r.after(2 * time.Minute)
		r.wantTold("ack a, ack b")
	}, "a", "b")
}

func TestDrainIsSeenBeforeTheFirstJobAndAfterTrouble(t *testing.T) {
	inBubble(t, handler{}, func(t *testing.T, r *rig) {
		r.worker.Checks["redis"] = r.asked()
		r.drain(true)
		r.start()
		r.after(time.Minute)
		r.wantTold("")
		r.status.cut(true) // trouble counts for more: someone must fix it
		r.after(time.Minute)
		if err := r.worker.Ready(); err == nil || !strings.Contains(err.Error(), "redis is away") {
			t.Errorf("without Redis: %v", err)
		}
		r.wantGauges(0, 0)
		r.status.cut(false)
		r.after(time.Minute)
		if err := r.worker.Ready(); err == nil || err.Error() != ErrDraining.Error() {
			t.Errorf("after the trouble: %v", err)
		}
		r.wantTold("")
	}, "a")
}

// TestJ15CancelIsSeenWithinTwoSecondsThoughAReportIsLost asks at every tenth of two
// seconds, and the reports of the second after that fail, or get no answer.
func TestJ15CancelIsSeenWithinTwoSecondsThoughAReportIsLost(t *testing.T) {
	for how, trouble := range map[string]func(*flaky, bool){"lost": (*flaky).cut, "without an answer": (*flaky).freeze} {
		for tenth := range 20 {
			t.Run(fmt.Sprintf("%s, %d00 ms after some seconds", how, tenth), func(t *testing.T) {
				var stopped time.Time
				h := handler{run: func(ctx context.Context, _ jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
					report(jobs.Progress{Done: 1, Total: 4, Message: "Page 1/4 analyzing..."})
					<-ctx.Done() // a page that takes forever
					stopped = time.Now()
					return jobs.Result{}, ctx.Err()
				}}
				inBubble(t, h, func(t *testing.T, r *rig) {
					r.start()
					r.after(5*time.Second + time.Duration(tenth)*100*time.Millisecond)
					asked := time.Now()
					if _, err := r.status.Cancel(t.Context(), "a"); err != nil {
						t.Fatal(err)
					}
					trouble(r.status, true)
					r.after(time.Second)
					trouble(r.status, false)
					r.after(10 * time.Second)
					if took := stopped.Sub(asked); took <= 0 || took > 2*time.Second {
						t.Errorf("stopped %s after the cancel, want 2 s at most", took)
					}
					r.wantStatus("a", "canceled 25% Canceled")
				}, "a")
			})
		}
	}
}

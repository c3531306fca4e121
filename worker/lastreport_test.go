package worker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/batchfleet/batchfleet/batch"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// TestK21OutcomeBringsTheReportOfAJobThatEndsBeforeItIsSent has a call to Redis hang for a second while jobs run that end
// before. The report of one that has failed is sent, because its reply may be that somebody has canceled the job.
func TestK21OutcomeBringsTheReportOfAJobThatEndsBeforeItIsSent(t *testing.T) {
	for _, c := range []struct {
		name, word string
		err        error
		reports    int           // with progress
		after      time.Duration // the job is acked
	}{
		{"a job that succeeds", "completed", nil, 0, 10 * time.Millisecond},
		{"a job that fails", "failed: no", errors.New("no"), 1, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := handler{run: func(ctx context.Context, _ jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
				report(jobs.Progress{Step: "run", Message: "Running"})
				return jobs.Result{}, cmp.Or(jobs.Sleep(ctx, 10*time.Millisecond), c.err)
			}}
			inBubble(t, h, func(t *testing.T, r *rig) {
				r.status.turns = &batch.Group[string, struct{}]{Send: func(_ context.Context, all []string) []batch.Answer[struct{}] {
					if all[0] == "hangs" {
						time.Sleep(time.Second)
					}
					return make([]batch.Answer[struct{}], len(all))
				}}
				hangs := make(chan error)
				go func() {
					_, err := r.status.turns.Do(context.Background(), "hangs")
					hangs <- err
				}()
				var acked time.Duration
				r.q.onAck = func(jobs.ID) { acked = time.Since(r.q.start) }
				r.start()
				if err := <-hangs; err != nil {
					t.Error(err)
				}
				r.after(time.Second)
				if acked != c.after || r.status.reports != c.reports {
					t.Errorf("acked after %s and %d reports, want %s and %d", acked, r.status.reports, c.after, c.reports)
				}
				if written := testutil.ToFloat64(r.worker.Metrics.progressWritten); written != 1 {
					t.Errorf("%v values of progress were written, want 1", written)
				}
				lines, err := r.status.Lines(t.Context(), "j", status.LogQuery{Tail: 10})
				var texts []string
				for _, l := range lines {
					texts = append(texts, l.Text)
				}
				if want := []string{"Running", "attempt 1 " + c.word}; err != nil || !slices.Equal(texts[min(1, len(texts)):], want) {
					t.Errorf("the log has %q, want %q after its first line; %v", texts, want, err)
				}
				if e, err := r.status.Get(t.Context(), "j"); err != nil || e.Detail.Steps["run"].IsZero() {
					t.Errorf("steps are %v, want run among them; %v", e.Detail.Steps, err)
				}
			}, "j")
		})
	}
}

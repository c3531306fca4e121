package worker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// logOf returns the texts of a job's log.
func (r *rig) logOf(id jobs.ID) []string {
	r.t.Helper()
	lines, err := r.status.Lines(context.Background(), id, status.LogQuery{Tail: 100_000})
	if err != nil {
		r.t.Fatal(err)
	}
	var texts []string
	for _, l := range lines {
		texts = append(texts, l.Text)
	}
	return texts
}

func TestF26LogIsNotALineAPage(t *testing.T) {
	h := handler{run: func(ctx context.Context, _ jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		for n := range 5000 { // in 50 s
			report(jobs.Progress{Done: n + 1, Total: 5000, Message: fmt.Sprintf("Page %d/5000 analyzing...", n+1)})
			if err := jobs.Sleep(ctx, 10*time.Millisecond); err != nil {
				return jobs.Result{}, err
			}
		}
		return jobs.Result{}, nil
	}}
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.start()
		r.after(time.Minute)
		got := r.logOf("j")
		if n := len(got); n < 20 || n > 30 {
			t.Errorf("%d lines of log for 5000 pages in 50 s, want one each 2 s: %q", n, got)
		}
		if got[1] != "Page 1/5000 analyzing..." || got[len(got)-2] != "Page 5000/5000 analyzing..." {
			t.Errorf("the log goes from %q to %q, want the first page and the last", got[1], got[len(got)-2])
		}
	}, "j")
}

// TestF26LinesOfAFailedReportAreKeptAndNoneDoubled takes the status store away twice
// while a job runs: first before it writes, then after it has written.
func TestF26LinesOfAFailedReportAreKeptAndNoneDoubled(t *testing.T) {
	inBubble(t, slowly(30, 3*time.Second), func(t *testing.T, r *rig) {
		r.start()
		r.after(10 * time.Second)
		r.status.cut(true)
		r.after(20 * time.Second)
		r.status.cut(false)
		r.after(10 * time.Second)
		r.status.lose(true)
		r.after(20 * time.Second)
		r.status.lose(false)
		r.after(time.Minute)
		want := []string{"attempt 1 started by w1"}
		for n := range 30 {
			want = append(want, fmt.Sprintf("Page %d/30 analyzing...", n+1))
		}
		want = append(want, "attempt 1 completed")
		if got := r.logOf("j"); !slices.Equal(got[1:], want[1:]) {
			t.Errorf("the log is %q, want %q", got, want)
		}
	}, "j")
}

// slowly returns a handler of so many pages that take so long each.
func slowly(pages int, each time.Duration) handler {
	return handler{run: func(ctx context.Context, _ jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		for n := range pages {
			if err := jobs.Sleep(ctx, each); err != nil {
				return jobs.Result{}, err
			}
			report(jobs.Progress{Done: n + 1, Total: pages, Message: fmt.Sprintf("Page %d/%d analyzing...", n+1, pages)})
		}
		return jobs.Result{}, nil
	}}
}

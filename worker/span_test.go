package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/internal/testtrace"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/trace"
	"github.com/batchfleet/batchfleet/worker"
	"github.com/batchfleet/batchfleet/worker/memory"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	parent  = "00-" + traceID + "-b7ad6b7169203331-01"
)

// stepper is a handler with three steps.
type stepper struct {
	err  error
	seen chan string // the trace that its jobs have
}

func (h stepper) Run(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	h.seen <- job.Trace
	for _, step := range []string{"fetch", "run", "run", "store"} {
		report(jobs.Progress{Step: step})
		_ = jobs.Sleep(ctx, time.Second)
	}
	return jobs.Result{}, h.err
}

func (stepper) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
}

func TestD32SpansOfAnAttempt(t *testing.T) {
	tests := []struct {
		name, trace string
		err         error
		tree        string
	}{
		{"it succeeds", parent, nil, "lease(attempt(fetch run store) settle)"},
		{"it fails", parent, errors.New("no paper"), "lease(attempt!(fetch run store!) settle)"},
		{"it is handed back", parent, fmt.Errorf("%w: no disk", jobs.ErrUnavailable), "lease!(attempt!(fetch run store!))"},
		{"it came without a trace", "", nil, "lease(attempt(fetch run store) settle)"},
		{"it came with a bad one", "00-x", nil, "lease(attempt(fetch run store) settle)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, spans := testtrace.New(t.Context())
				log := runOne(ctx, t, tt.trace, tt.err, func(seen string) {
					if all := spans.All(""); len(all) > 0 || seen == tt.trace || !trace.Parse(seen).Valid() {
						t.Errorf("the handler's job has trace %q", seen)
					}
				})
				all := spans.All("")
				id := all[0].Context.Trace.String()
				lease := all[slices.IndexFunc(all, func(s *trace.Span) bool { return s.Name == "lease" })]
				if tt.trace == parent && (id != traceID || lease.Parent.String() != "b7ad6b7169203331") {
					t.Errorf("the lease is below %s of %s", lease.Parent, id)
				}
				if got := spans.Tree(id); got != tt.tree {
					t.Errorf("spans %s, want %s", got, tt.tree)
				}
				for line := range strings.Lines(log) {
					if strings.Contains(line, "job=a") && !strings.Contains(line, "trace_id="+id) {
						t.Errorf("a line without the trace: %s", line)
					}
				}
				if !slices.ContainsFunc(all, func(s *trace.Span) bool { return testtrace.Get(s, "batchfleet.job.id") == "a" }) {
					t.Error("no span names the job")
				}
			})
		})
	}
}

func TestD32WithoutATracerAJobKeepsItsTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := runOne(t.Context(), t, parent, nil, func(seen string) {
			if seen != parent {
				t.Errorf("the handler's job has trace %q, want %q", seen, parent)
			}
		})
		if !strings.Contains(log, "trace_id="+traceID) {
			t.Errorf("logged: %s", log)
		}
	})
}

// runOne runs a job to its end, or until it is handed back, and returns what was logged.
func runOne(ctx context.Context, t *testing.T, traceparent string, err error, see func(string)) string {
	t.Helper()
	var log testlog.Buffer
	q := new(memory.Queue)
	seen := make(chan string, 10)
	w := &worker.Worker{
		Source: q, Status: new(memory.Status), Handlers: map[jobs.Kind]worker.Handler{"k": stepper{err, seen}},
		Log: slog.New(trace.Handler(slog.NewTextHandler(&log, nil))),
	}
	q.Add(memory.Message{Job: jobs.Job{ID: "a", Kind: "k", Trace: traceparent}})
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	see(<-seen)
	time.Sleep(10 * time.Second) // in a bubble
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return log.String()
}

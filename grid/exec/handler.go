package exec

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// Handler is a handler of package worker for jobs whose payload is a [wire.JobRequest] in JSON. Their result is a
// [wire.JobResult] in JSON.
type Handler struct{ Runner *Runner }

// TimeLimit implements worker.TimeLimiter. The runner's own limits come first.
func (h *Handler) TimeLimit() time.Duration { return h.Runner.Limits.MaxTimeout + time.Hour }

// Earlier implements the worker's handler: results are the member's to keep.
func (h *Handler) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
}

// Run implements the worker's handler for callers that know no attempts.
func (h *Handler) Run(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	return h.RunAttempt(ctx, jobs.Attempt{Job: job, Number: 1, Report: report})
}

// RunAttempt implements the worker's handler. A result that is FAILED is a [*jobs.Failure]: its code is the reason in
// capitals, its detail the whole result.
func (h *Handler) RunAttempt(ctx context.Context, a jobs.Attempt) (jobs.Result, error) {
	var q wire.JobRequest
	if err := json.Unmarshal([]byte(a.Job.Payload), &q); err != nil {
		return jobs.Result{}, &jobs.Failure{Code: "REJECTED", Final: true, Err: err}
	}
	a.Report(jobs.Progress{Step: "run", Message: "Running " + q.ExecName, Logged: true})
	stop := alive(a.Report)
	defer stop()
	r, err := h.Runner.Run(ctx, Attempt{Request: q, Number: max(a.Number, q.Attempt), Deadline: a.Deadline, Line: a.Log})
	if err != nil {
		return jobs.Result{}, err
	}
	text, err := Encode(&r)
	if err != nil {
		return jobs.Result{}, err
	}
	if r.Status == wire.OK {
		return jobs.Result{Text: string(text)}, nil
	}
	return jobs.Result{}, &jobs.Failure{Code: strings.ToUpper(r.Reason), Final: true, Detail: string(text), Err: errors.New(r.Message)}
}

// aliveEvery is how often a job is reported to be alive: a worker stops one that reports nothing.
const aliveEvery = 20 * time.Second

// alive reports that a job is alive until stop is called.
func alive(report func(jobs.Progress)) (stop func()) {
	var running sync.WaitGroup
	end := make(chan struct{})
	running.Go(func() {
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				report(jobs.Progress{Step: "run"})
			}
		}
	})
	return func() { close(end); running.Wait() }
}

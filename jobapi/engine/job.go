package engine

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// A job is what an engine knows of one. The engine's lock guards it; id, typ, op,
// request, timeout and log do not change once others know it.
type job struct {
	id      string
	typ     string
	op      *Operation
	request json.RawMessage
	timeout time.Duration
	log     *joblog

	work   []Step // nil once it has left
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // while it runs

	status                     jobs.State
	created, started, finished time.Time
	shown                      time.Time // the last that it shows
	due                        time.Time // when it has waited too long for its start
	steps                      []jobapi.Step
	result                     json.RawMessage
	failed                     *jobapi.Error
	version                    uint64
}

// snapshot returns the job as it is now, as others may see it. Nothing that it
// shares with the job changes.
func (j *job) snapshot(scope string) jobapi.Job {
	shown := jobapi.Job{
		ID: j.id, Scope: scope, Type: j.typ, Status: j.status,
		CreatedAt: jobapi.At(j.created), StartedAt: jobapi.At(j.started), FinishedAt: jobapi.At(j.finished),
		Request: j.request, Progress: jobapi.ProgressOf(j.steps), Steps: slices.Clone(j.steps), Error: j.failed,
		Version: strconv.FormatUint(j.version, 10),
	}
	if j.status == jobs.Succeeded {
		shown.Result = j.result // until then it may be replaced
	}
	return shown
}

func (j *job) item(scope string) jobapi.Item {
	return jobapi.Item{
		ID: j.id, Scope: scope, Type: j.typ, Status: j.status,
		CreatedAt: jobapi.At(j.created), StartedAt: jobapi.At(j.started), FinishedAt: jobapi.At(j.finished),
	}
}

// bytes is about what an ended job holds, but for its log.
func (j *job) bytes() int {
	n := len(j.request) + len(j.result)
	for _, s := range j.steps {
		n += len(s.Name) + len(s.Message)
	}
	if j.failed != nil {
		details, _ := json.Marshal(j.failed.Details) // they were decoded from JSON
		n += len(j.failed.Message) + len(details)
	}
	return n
}

// runs reports whether step i is under way.
func (j *job) runs(i int) bool {
	return j.status == jobs.Running && j.steps[i].Status == jobapi.Running
}

// reached says how far a job came: its last step that began, and what it said.
func (j *job) reached() string {
	for i, s := range slices.Backward(j.steps) {
		if !s.StartedAt.IsZero() {
			return j.line(i, s.Status.String()) + after(s.Message)
		}
	}
	return ""
}

// at returns now, or if the clock was set back the last time that the job shows.
func (j *job) at(now time.Time) time.Time {
	if now.After(j.shown) {
		j.shown = now
	}
	return j.shown
}

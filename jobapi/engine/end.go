package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// How a job ends. Whoever is first with the engine's lock decides; what comes
// later finds a job that has ended, and changes nothing.

// finish notes that a job has succeeded.
func (e *Engine) finish(j *job) {
	if j.status != jobs.Running {
		return
	}
	if j.result == nil {
		j.result = []byte("{}")
	}
	e.end(j, j.at(e.now()), jobs.Succeeded, context.Canceled, "job succeeded")
}

// fail notes that a job has failed, and its current step with it.
func (e *Engine) fail(j *job, failed *jobapi.Error) {
	if j.status.Terminal() {
		return
	}
	lines := []string{"job failed: " + failed.Code + after(failed.Message)}
	now := j.at(e.now())
	for i := range j.steps {
		if j.runs(i) {
			s := &j.steps[i]
			s.Status, s.Message, s.FinishedAt = jobapi.Failed, cut(failed.Message, maxText), jobapi.At(now)
			lines = slices.Insert(lines, 0, j.line(i, "failed"+after(s.Message)))
		}
	}
	j.failed = failed
	cause := context.Canceled
	if failed.Code == jobapi.CodeTimeout {
		cause = jobs.ErrTimeout
	}
	e.end(j, now, jobs.Failed, cause, lines...)
}

// expire notes that a job is out of time.
func (e *Engine) expire(j *job) {
	what := "waited for its start for"
	if j.status == jobs.Running {
		what = "took longer than"
	}
	message := fmt.Sprintf("The job %s the %s that it has", what, j.timeout)
	if i := slices.IndexFunc(j.steps, func(s jobapi.Step) bool { return s.Status == jobapi.Running }); i >= 0 {
		message += after(j.steps[i].Message) // how far it came
	}
	e.fail(j, &jobapi.Error{
		Code: jobapi.CodeTimeout, Message: message,
		Details: map[string]any{"timeoutMs": j.timeout.Milliseconds()},
	})
}

// stop notes that a job is canceled, with all steps that have not ended. It
// reports whether it was: false of a job that has ended.
func (e *Engine) stop(j *job, cause error) bool {
	if j.status.Terminal() {
		return false
	}
	now := j.at(e.now())
	for i := range j.steps {
		s := &j.steps[i]
		switch s.Status {
		case jobapi.Running:
			s.Status, s.FinishedAt = jobapi.Canceled, jobapi.At(now)
		case jobapi.Pending:
			s.Status = jobapi.Canceled
		default:
		}
	}
	e.end(j, now, jobs.Canceled, cause, "job canceled: "+cause.Error())
	return true
}

// end makes a job one that has ended. One that waited leaves at once, one that
// ran when its goroutine returns.
func (e *Engine) end(j *job, now time.Time, status jobs.State, cause error, lines ...string) {
	waited := j.status == jobs.Queued
	e.tally.Move(now, j.op.Name, j.status, status)
	j.status, j.finished = status, now
	if status != jobs.Succeeded {
		j.result = nil
	}
	j.version++
	j.cancel(cause)
	if j.timer != nil {
		j.timer.Stop()
	}
	j.log.end(lines...)
	e.Metrics.ended.WithLabelValues(e.Scope, j.typ, status.String()).Inc()
	if waited {
		i := slices.Index(e.waiting, j)
		e.waiting = slices.Delete(e.waiting, i, i+1)
		e.leave(j)
	}
	e.changes.Add(j.id)
}

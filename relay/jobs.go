package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// Jobs shows the tasks of a relay as jobs of the Job API: scope "relay", type relay.KIND. To run one again means to upload
// what it has made once more.
type Jobs struct{ Relay *Relay }

var (
	_ jobapi.Keeper    = Jobs{}
	_ jobapi.Retrier   = Jobs{}
	_ jobapi.Notifier  = Jobs{}
	_ jobapi.Feed      = Jobs{}
	_ jobapi.Counter   = Jobs{}
	_ jobapi.Explainer = Jobs{}
	_ jobapi.Pauser    = Jobs{}
	_ jobapi.Catalog   = Jobs{}
	_ jobapi.Reporter  = Jobs{}
)

const (
	// Scope is the scope of a relay's jobs.
	Scope      = "relay"
	typePrefix = Scope + "."
)

// List implements [jobapi.Jobs].
func (j Jobs) List(_ context.Context, q jobapi.Query) (page jobapi.Page, err error) {
	if q.Cursor != "" && !isID(q.Cursor) {
		return page, &jobapi.FieldError{Field: "cursor", Problem: "no page had it"}
	}
	tasks, next := j.Relay.tasks.page(q.Cursor, q.Until, q.Limit, func(t *Task) bool {
		return (q.Status == 0 || t.State.job() == q.Status) && (q.Type == "" || typePrefix+string(t.Kind) == q.Type)
	})
	for _, t := range tasks {
		head := headOf(t)
		page.Items = append(page.Items, head.Item())
	}
	page.Next = next
	return page, nil
}

// Get implements [jobapi.Jobs].
func (j Jobs) Get(_ context.Context, ids []string) (found []jobapi.Job, err error) {
	for _, id := range ids {
		t, err := j.Relay.tasks.Get(jobs.ID(id))
		if err != nil {
			continue
		}
		job, err := j.jobOf(t)
		if err != nil {
			return nil, err
		}
		found = append(found, job)
	}
	return found, nil
}

// Log implements [jobapi.Jobs].
func (j Jobs) Log(_ context.Context, id string, q jobapi.LogQuery) (jobapi.Log, error) {
	if _, err := j.Relay.tasks.Get(jobs.ID(id)); err != nil {
		return jobapi.Log{}, err
	}
	return j.Relay.logs.read(jobs.ID(id), q)
}

// Cancel implements [jobapi.Jobs].
func (j Jobs) Cancel(_ context.Context, id string) (jobapi.Job, error) {
	t, err := j.Relay.status.Cancel(jobs.ID(id))
	if errors.Is(err, errEnded) {
		return jobapi.Job{}, fmt.Errorf("cancel job %s: %w: it is %s", id, jobapi.ErrEnded, t.State.job())
	}
	if err != nil {
		return jobapi.Job{}, err
	}
	return j.jobOf(t)
}

// Retry implements [jobapi.Retrier].
func (j Jobs) Retry(_ context.Context, id string) (jobapi.Job, error) {
	t, err := j.Relay.tasks.Get(jobs.ID(id))
	if err != nil {
		return jobapi.Job{}, err
	}
	if t.State != Failed {
		return jobapi.Job{}, fmt.Errorf("retry job %s: %w: it is %s", id, jobapi.ErrNotFailed, t.State.job())
	}
	t, err = j.Relay.retryUpload(t.ID)
	if errors.Is(err, errEnded) {
		return jobapi.Job{}, &jobapi.Refusal{
			Status: http.StatusConflict, Code: jobapi.CodeConflict,
			Message: "Only an upload that has failed can be made again: for another run of the program create another task",
		}
	}
	if err != nil {
		return jobapi.Job{}, err
	}
	return j.jobOf(t)
}

// Changed implements [jobapi.Notifier].
func (j Jobs) Changed() <-chan struct{} { return j.Relay.tasks.Changed() }

// Artifacts implements [jobapi.Keeper].
func (j Jobs) Artifacts(_ context.Context, id string) (made []jobapi.Artifact, err error) {
	t, err := j.Relay.tasks.Get(jobs.ID(id))
	if err != nil {
		return nil, err
	}
	if t.State != Succeeded {
		return nil, nil
	}
	for _, a := range t.Artifacts {
		made = append(made, shownArtifact(a))
	}
	return made, nil
}

func shownArtifact(a Artifact) jobapi.Artifact {
	return jobapi.Artifact{Name: a.Name, MediaType: a.ContentType, Bytes: a.Size, SHA256: a.SHA256, Tag: a.SHA256}
}

// OpenArtifact implements [jobapi.Keeper].
func (j Jobs) OpenArtifact(_ context.Context, id, name string) (io.ReadCloser, jobapi.Artifact, error) {
	t, err := j.Relay.tasks.Get(jobs.ID(id))
	if err != nil {
		return nil, jobapi.Artifact{}, err
	}
	a, ok := t.artifact(name)
	if !ok || t.State != Succeeded {
		return nil, jobapi.Artifact{}, jobapi.NoJob(id)
	}
	f, err := j.Relay.tasks.openArtifact(t.ID, a)
	if err != nil {
		return nil, jobapi.Artifact{}, err
	}
	return f, shownArtifact(a), nil
}

// headOf returns what a list shows of a task.
func headOf(t *Task) jobapi.Job {
	job := jobapi.Job{
		ID: string(t.ID), Scope: Scope, Type: typePrefix + string(t.Kind), Status: t.State.job(), Attempt: t.Attempt,
		CreatedAt: jobapi.At(t.CreatedAt), FinishedAt: jobapi.At(t.FinishedAt),
	}
	if t.State != Queued {
		job.StartedAt = jobapi.At(t.StartedAt)
	}
	return job
}

// jobOf returns all that is shown of a task.
func (j Jobs) jobOf(t *Task) (jobapi.Job, error) {
	job := headOf(t)
	var err error
	if job.Request, err = json.Marshal(map[string]any{"jobId": t.JobID, "priority": t.Priority, "promptBytes": t.Prompt.Bytes, "assets": len(t.Assets)}); err != nil {
		return job, err
	}
	run := jobapi.Step{Name: "run", Status: jobapi.Pending, StartedAt: job.StartedAt, Message: jobapi.ShownText(t.Message, 1<<10)}
	upload := jobapi.Step{Name: "upload", Status: jobapi.Pending}
	if !t.UploadingAt.IsZero() && t.State >= Uploading {
		run.Status, run.FinishedAt, run.Message = jobapi.Succeeded, jobapi.At(t.RanAt), ""
		upload.StartedAt, upload.FinishedAt = jobapi.At(t.UploadingAt), job.FinishedAt
	}
	last := &run
	if !upload.StartedAt.IsZero() {
		last = &upload
	}
	switch t.State {
	case Queued:
		run.Message = cmp.Or(j.Relay.whyQueued(t.Kind), run.Message)
	case Running:
		run.Status, run.Message = jobapi.Running, strings.TrimSuffix(fmt.Sprintf("%d %%: %s", int(100*t.Progress), run.Message), ": ")
	case Uploading:
		upload.Status, upload.Message = jobapi.Running, jobapi.ShownText(t.Message, 1<<10)
	case Succeeded:
		upload.Status = jobapi.Succeeded
		if j.Relay.Orchestrator == nil {
			upload.Status, upload.Message = jobapi.Skipped, "this relay has no orchestrator: fetch the files"
		}
		job.Result, err = json.Marshal(map[string]any{"task": "/v1/tasks/" + string(t.ID), "artifacts": len(t.Artifacts)})
	case Failed:
		job.Error = &jobapi.Error{Code: jobapi.ShownCode(t.Error.Code), Message: jobapi.ShownText(t.Error.Message, 2<<10)}
		last.Status, last.Message = jobapi.Failed, job.Error.Message
	case Canceled:
		last.Status = jobapi.Canceled
	}
	if last == &run && !run.StartedAt.IsZero() {
		run.FinishedAt = job.FinishedAt
	}
	if t.CancelRequested {
		last.Message = strings.TrimPrefix(last.Message+"; to be canceled", "; ")
	}
	for _, a := range t.Tried {
		job.Attempts = append(job.Attempts, jobapi.Attempt{
			Number: a.Number, Started: jobapi.At(a.StartedAt), Finished: jobapi.At(a.EndedAt), Outcome: a.Outcome, Message: jobapi.ShownText(a.Message, 1<<10),
		})
	}
	job.Steps = []jobapi.Step{run, upload}
	job.Progress = jobapi.ProgressOf(job.Steps)
	return job, errors.Join(err, job.SetVersion())
}

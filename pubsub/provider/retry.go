package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

var _ jobapi.Retrier = (*Fleet)(nil)

// Retry implements [jobapi.Retrier], also for a queued job: it publishes a message for the job to the fleet's topic,
// made from what is on record. A dead letter of the job stays where it is, and is dropped by
// a later redrive if the job has succeeded by then. If Redis has lost what the job was submitted with, its message is that of its
// dead letter, which is dropped.
func (f *Fleet) Retry(ctx context.Context, id string) (jobapi.Job, error) {
	name, err := jobs.ParseID(id)
	if err != nil {
		return jobapi.Job{}, jobapi.NoJob(id)
	}
	if f.Publish == nil {
		return jobapi.Job{}, notSetUp("This server has no Pub/Sub: set GCP_PROJECT_ID, and PUBSUB_EMULATOR_HOST for an emulator")
	}
	entries, err := f.Status.Entries(ctx, []jobs.ID{name})
	if err != nil {
		return jobapi.Job{}, err
	}
	if len(entries) == 0 || entries[0].State() == 0 {
		return jobapi.Job{}, jobapi.NoJob(id)
	}
	// One that is queued may be one whose message could not be published, by us before. A second
	// message does no harm.
	if state := entries[0].State(); state != jobs.Failed && state != jobs.Queued {
		return jobapi.Job{}, notFailed(id, state)
	}
	job, err := f.Status.Job(ctx, entries[0])
	// A job that has failed has had a kind, its worker's default if no other.
	lost := errors.Is(err, fs.ErrNotExist) || err == nil && entries[0].State() == jobs.Failed && job.Kind == ""
	switch {
	case lost:
		return f.redrive(ctx, name)
	case err != nil:
		return jobapi.Job{}, err
	}
	job.Submitted = time.Now()
	state, err := f.Status.Requeue(ctx, job)
	switch {
	case err != nil:
		return jobapi.Job{}, err
	case state != jobs.Failed && state != jobs.Queued && state != 0: // somebody else was faster
		return jobapi.Job{}, notFailed(id, state)
	}
	// What is recorded as queued must be published, also if the caller leaves.
	if _, err := f.Publish(context.WithoutCancel(ctx), job); err != nil {
		return jobapi.Job{}, &jobapi.Refusal{
			Status: http.StatusServiceUnavailable, Code: jobapi.CodeUnavailable,
			Message: "The job is recorded as queued, but its message could not be published: retry it again. " + jobapi.ShownText(err.Error(), 300),
		}
	}
	return f.one(ctx, id)
}

// redrive is Retry of a job that Redis does not have whole.
func (f *Fleet) redrive(ctx context.Context, id jobs.ID) (jobapi.Job, error) {
	refused := &jobapi.Refusal{
		Status: http.StatusConflict, Code: jobapi.CodePrecondition,
		Message: "Redis has lost what the job was submitted with, and the job has no dead letter that could be read now: submit it again",
	}
	if f.Redrive == nil {
		return jobapi.Job{}, refused
	}
	did, queued, err := f.Redrive(ctx, id)
	switch {
	case err != nil:
		return jobapi.Job{}, fmt.Errorf("look for the dead letter of job %s: %w", id, err)
	case !queued && did != "":
		refused.Message = "Redis has lost what the job was submitted with, and its dead letter is of no use (" + jobapi.ShownText(did, 300) + "): submit it again"
		return jobapi.Job{}, refused
	case !queued:
		return jobapi.Job{}, refused
	}
	return f.one(ctx, string(id))
}

func notFailed(id string, state jobs.State) error {
	return fmt.Errorf("retry job %s: %w: it is %s", id, jobapi.ErrNotFailed, state)
}

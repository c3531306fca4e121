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
// a later redrive if the job has succeeded by then.
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
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return jobapi.Job{}, &jobapi.Refusal{
			Status: http.StatusConflict, Code: jobapi.CodePrecondition,
			Message: "Redis has lost the parameters of the job: submit it again, or redrive its dead letter",
		}
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

func notFailed(id string, state jobs.State) error {
	return fmt.Errorf("retry job %s: %w: it is %s", id, jobapi.ErrNotFailed, state)
}

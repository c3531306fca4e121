package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

var _ jobapi.Retrier = (*Fleet)(nil)

// Retry implements [jobapi.Retrier]: it publishes a message for the job to the fleet's topic,
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
	if state := entries[0].State(); state != jobs.Failed {
		return jobapi.Job{}, fmt.Errorf("retry job %s: %w: it is %s", id, jobapi.ErrNotFailed, state)
	}
	d := entries[0].Detail
	job := jobs.Job{ID: name, Kind: d.Kind, Input: d.Input, Pages: d.Asked, Trace: d.Trace, Submitted: time.Now()}
	state, err := f.Status.Requeue(ctx, job)
	switch {
	case err != nil:
		return jobapi.Job{}, err
	case state != jobs.Failed && state != jobs.Queued: // somebody else was faster, or it was forgotten
		return jobapi.Job{}, fmt.Errorf("retry job %s: %w: it is %s", id, jobapi.ErrNotFailed, state)
	}
	// What is recorded as queued must be published, also if the caller leaves.
	if _, err := f.Publish(context.WithoutCancel(ctx), job); err != nil {
		return jobapi.Job{}, fmt.Errorf("retry job %s: it is recorded as queued, and the workers' repair will publish its message, which now failed: %w", id, err)
	}
	return f.one(ctx, id)
}

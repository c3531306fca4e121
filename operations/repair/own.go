package repair

import (
	"context"
	"errors"
	"io/fs"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/processor/custom"
)

// Results of people's own kinds list their inputs, where those of documents have one.

// ofOwn reports whether a result is stored of a job of people's own kinds, and returns the job with
// the inputs that the result lists, if none are on record.
func (r *round) ofOwn(ctx context.Context, job jobs.Job) (jobs.Job, bool, error) {
	stored, err := artifact.Stored(ctx, r.Store, job.ID)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return job, false, nil
	}
	if err != nil {
		return job, false, err
	}
	if job.Input == "" && len(job.Inputs) == 0 {
		job.Inputs = names(stored.Inputs)
		if len(job.Inputs) == 1 {
			job.Input, job.Inputs = job.Inputs[0], nil
		}
	}
	_, found, err := custom.Earlier(ctx, r.Store, job, r.Log)
	return job, found, err
}

func names(inputs []artifact.Input) []string {
	var all []string
	for _, in := range inputs {
		all = append(all, in.Name)
	}
	return all
}

// earlierOfOwn finds the result of such a job as its worker would, and deletes its checkpoint.
func (r *round) earlierOfOwn(ctx context.Context, job jobs.Job) (jobs.Result, bool, error) {
	earlier, found, err := custom.Earlier(ctx, r.Store, job, r.Log)
	if err != nil || !found {
		return jobs.Result{}, false, err
	}
	if err := custom.DeleteCheckpoint(ctx, r.Store, job.ID); err != nil {
		r.Log.WarnContext(ctx, "cannot delete the checkpoint of a job that has ended", "job", job.ID, "err", err)
	}
	return earlier.Outcome(), true, nil
}

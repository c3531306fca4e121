package processor

import (
	"context"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
)

// Discard implements the worker's handler: it deletes what the attempts at a job that
// has ended without success have left, whichever of them it was.
func (p *Pages) Discard(ctx context.Context, job jobs.Job) error {
	return artifact.Discard(ctx, p.Store, job.ID)
}

// removeUnfinished takes from earlier attempts what they were about to store.
func (p *Pages) removeUnfinished(ctx context.Context, job jobs.ID) error {
	return artifact.RemoveUnfinished(ctx, p.Store, job, "parts", "")
}

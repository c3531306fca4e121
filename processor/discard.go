package processor

import (
	"context"
	"errors"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// Discard implements the worker's handler: it deletes what the attempts at a job that
// has ended without success have left, whichever of them it was.
func (p *Pages) Discard(ctx context.Context, job jobs.Job) error {
	// The files that are not yet objects first: they cannot become any after that.
	err := p.removeUnfinished(ctx, job.ID)
	walked := p.Store.Walk(ctx, resultsDir(job.ID)+"/", func(name string, _ storage.Info, err error) error {
		if err == nil {
			err = p.Store.Delete(ctx, name)
		}
		return err
	})
	return errors.Join(err, walked)
}

// removeUnfinished takes from earlier attempts what they were about to store.
func (p *Pages) removeUnfinished(ctx context.Context, job jobs.ID) error {
	s, ok := p.Store.(interface {
		RemoveUnfinished(ctx context.Context, dir string) error
	})
	if !ok {
		return nil // a bucket has no such files
	}
	dir := resultsDir(job)
	return errors.Join(s.RemoveUnfinished(ctx, dir+"/parts"), s.RemoveUnfinished(ctx, dir))
}

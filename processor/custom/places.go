package custom

import (
	"context"
	"fmt"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/scratch"
)

// places are the directories of an attempt. They are made when they are first asked for: most functions
// in Go need none of them, and to make and delete them costs more than a short job does otherwise.
type places struct {
	dir        *scratch.Dir
	checkpoint *checkpoint
	err        error                   // why one of them could not be made
	stop       context.CancelCauseFunc // ends the work then; nil before it begins
}

// Dir returns the directories of the attempt. The error wraps [jobs.ErrUnavailable], and the attempt
// ends with it, whatever Do returns. It may be called concurrently.
func (a *Attempt) Dir() (*scratch.Dir, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.places.dir == nil && a.places.err == nil {
		dir, err := a.handler.Scratch.Attempt(a.Job.ID, a.Number)
		a.places.dir = dir
		a.places.failed(err)
	}
	return a.places.dir, a.places.err
}

// Checkpoint returns the directory of the checkpoint, with what earlier attempts have left in it. Errors
// and concurrency are as for Dir.
func (a *Attempt) Checkpoint() (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.places.checkpoint == nil && a.places.err == nil {
		local, err := a.handler.Scratch.Checkpoint(a.Job.ID)
		a.places.failed(err)
		if err == nil {
			a.places.checkpoint = &checkpoint{Attempt: a, path: local.Dir, local: local}
		}
	}
	if a.places.err != nil {
		return "", a.places.err
	}
	return a.places.checkpoint.path, nil
}

// failed notes why a directory could not be made, if it could not.
func (p *places) failed(err error) {
	if err == nil {
		return
	}
	p.err = fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
	if p.stop != nil {
		p.stop(p.err)
	}
}

// broken returns why a directory could not be made.
func (a *Attempt) broken() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.places.err
}

// forget deletes the checkpoint of the job, which has a result: this attempt's, or one that an earlier attempt
// has left.
func (a *Attempt) forget(ctx context.Context) {
	c := a.places.checkpoint
	if c == nil && a.Number == 1 && a.Kind.Checkpoints == 0 {
		// There is none, and to look for it would be 3 % of a short job's processor time. What an attempt has left
		// that was handed back to a gateway, which does not count it, is for the agent to forget.
		return
	}
	if c == nil {
		a.handler.forgetLocal(ctx, a.Job.ID)
	} else if err := c.local.Delete(); err != nil {
		a.handler.Log.WarnContext(ctx, "cannot delete a checkpoint", "job", a.Job.ID, "err", err)
	}
	a.handler.forgetStored(ctx, a.Job.ID)
}

// leave gives the directories back. The work has ended.
func (a *Attempt) leave() {
	if c := a.places.checkpoint; c != nil {
		c.close()
	}
	if a.places.dir != nil {
		a.places.dir.Remove()
	}
}

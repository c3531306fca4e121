package leader

import (
	"context"
	"fmt"

	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobapi"
)

// Pause implements [jobapi.Pauser]: jobs of the exec stay queued. A leader with a directory keeps that over a restart.
func (j Jobs) Pause(ctx context.Context, kind string) error {
	var err error
	changed := false
	if doErr := j.do(ctx, func(c *schedule.Core) {
		paused := c.Paused()
		switch {
		case wire.CheckExecName(kind) != nil || !isPaused(paused, kind) && !c.Takes(kind):
			err = fmt.Errorf("exec %.60q: %w", kind, jobapi.ErrNoKind)
		case len(paused) >= jobapi.MaxPaused && !isPaused(paused, kind):
			err = fmt.Errorf("pause exec %s: %w: at most %d; resume another one first", kind, jobapi.ErrManyPaused, jobapi.MaxPaused)
		default:
			changed = c.Pause(j.Leader.now(), kind)
		}
	}); doErr != nil {
		return doErr
	}
	if changed {
		j.Leader.Log.InfoContext(ctx, "an exec is paused", "exec", kind)
	}
	return err
}

// Resume implements [jobapi.Pauser].
func (j Jobs) Resume(ctx context.Context, kind string) error {
	changed, known := false, false
	if err := j.do(ctx, func(c *schedule.Core) {
		changed = c.Resume(j.Leader.now(), kind)
		known = changed || wire.CheckExecName(kind) == nil && c.Takes(kind)
	}); err != nil {
		return err
	}
	if changed {
		j.Leader.Log.InfoContext(ctx, "an exec is not paused any more", "exec", kind)
	}
	if !known {
		return fmt.Errorf("exec %.60q: %w", kind, jobapi.ErrNoKind)
	}
	return nil
}

// Paused implements [jobapi.Pauser].
func (j Jobs) Paused(ctx context.Context) (all []jobapi.Paused, err error) {
	var paused []schedule.PausedExec
	err = j.do(ctx, func(c *schedule.Core) { paused = c.Paused() })
	for _, p := range paused {
		all = append(all, jobapi.Paused{Kind: p.Exec, Since: jobapi.At(p.Since)})
	}
	return all, err
}

func isPaused(all []schedule.PausedExec, exec string) bool {
	for _, p := range all {
		if p.Exec == exec {
			return true
		}
	}
	return false
}

package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

var _ jobapi.Pauser = (*Fleet)(nil)

// Pause implements [jobapi.Pauser].
func (f *Fleet) Pause(ctx context.Context, kind string) error {
	if err := f.mustKnow(ctx, kind); err != nil {
		return err
	}
	err := f.Status.Pause(ctx, jobs.Kind(kind))
	if errors.Is(err, status.ErrManyPaused) {
		return fmt.Errorf("pause kind %s: %w", kind, jobapi.ErrManyPaused)
	}
	return err
}

// Resume implements [jobapi.Pauser].
func (f *Fleet) Resume(ctx context.Context, kind string) error {
	if !kindPattern().MatchString(kind) {
		return noKind(kind)
	}
	if was, err := f.Status.Resume(ctx, jobs.Kind(kind)); err != nil || was {
		return err
	}
	return f.mustKnow(ctx, kind)
}

// Paused implements [jobapi.Pauser].
func (f *Fleet) Paused(ctx context.Context) ([]jobapi.Paused, error) {
	all, err := f.Status.Paused(ctx)
	if err != nil {
		return nil, err
	}
	paused := []jobapi.Paused{}
	for _, p := range all {
		if kindPattern().MatchString(string(p.Kind)) { // another program may have written there
			paused = append(paused, jobapi.Paused{Kind: string(p.Kind), Since: jobapi.At(p.Since)})
		}
	}
	return paused, nil
}

func noKind(kind string) error { return fmt.Errorf("kind %.40q: %w", kind, jobapi.ErrNoKind) }

// mustKnow returns an error for an unknown kind: it is neither built in nor in the kinds file, no live worker runs it, and none
// of its jobs was queued of late.
func (f *Fleet) mustKnow(ctx context.Context, kind string) error {
	if !kindPattern().MatchString(kind) || kind == string(status.UnknownKind) {
		return noKind(kind)
	}
	if slices.Contains(builtIn, kind) || f.kind(jobs.Kind(kind)) != nil {
		return nil
	}
	if known, err := f.Status.HasKind(ctx, jobs.Kind(kind)); err != nil || known {
		return err
	}
	if known, err := f.Status.Runs(ctx, jobs.Kind(kind)); err != nil || known {
		return err
	}
	return noKind(kind)
}

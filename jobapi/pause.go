package jobapi

import (
	"context"
	"errors"
)

// Pauser is a Jobs whose kinds can be paused: a job of a paused kind stays queued, and one that runs goes on.
type Pauser interface {
	// Pause pauses a kind, without the scope; one that is paused already stays so. The error wraps [ErrNoKind] or [ErrManyPaused].
	Pause(ctx context.Context, kind string) error
	// Resume ends a pause. The error wraps [ErrNoKind] if the kind is not paused and not known.
	Resume(ctx context.Context, kind string) error
	// Paused returns the kinds that are paused, by name.
	Paused(ctx context.Context) ([]Paused, error)
}

// Paused is a kind that is paused.
type Paused struct {
	Kind  string `json:"kind"`
	Since Time   `json:"pausedSince"`
}

// MaxPaused is how many kinds of a scope may be paused at once.
const MaxPaused = 1000

// Errors of [Pauser].
var (
	ErrNoKind     = errors.New("no such kind")
	ErrManyPaused = errors.New("too many kinds are paused")
)

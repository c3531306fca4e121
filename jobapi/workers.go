package jobapi

import (
	"context"
	"errors"
)

// Workforce is a Jobs whose workers are known.
type Workforce interface {
	// Workers returns the workers, silent ones for an hour.
	Workers(ctx context.Context) ([]Worker, error)
}

// Drainer is a Workforce whose workers can be told, one by one, to take no more jobs, and to take some again.
type Drainer interface {
	Workforce
	// DrainWorker and ResumeWorker take a workerId. The error wraps [ErrNoWorker]. The worker follows within 10 s.
	DrainWorker(ctx context.Context, id string) error
	ResumeWorker(ctx context.Context, id string) error
}

// Revoker is a Workforce whose workers can be locked out, one by one: their tokens are no longer good.
type Revoker interface {
	Workforce
	// RevokeWorker takes a workerId. The error wraps [ErrNoWorker].
	RevokeWorker(ctx context.Context, id string) error
}

// ErrNoWorker means that there is no such worker.
var ErrNoWorker = errors.New("no such worker")

// Worker is a worker, as it reports itself.
type Worker struct {
	ID      string   `json:"workerId"` // of the process
	Name    string   `json:"name"`
	Host    string   `json:"host"`
	PID     int      `json:"pid"`
	Version string   `json:"version"`
	Kinds   []string `json:"kinds"` // never nil
	Slots   int      `json:"slots"`
	Jobs    int      `json:"jobs"`  // in hand
	State   string   `json:"state"` // working, idle, draining, unready or silent
	// Reason is why it takes no jobs, if it is unready.
	Reason  string `json:"reason,omitempty"`
	Started Time   `json:"startedAt"`
	Seen    Time   `json:"seenAt"` // silent since, if it is silent
	// GPUs are their indexes or names.
	GPUs []string `json:"gpus,omitempty"`
	// ClockOffset is by how many milliseconds its clock is ahead of the store's, if that is known.
	ClockOffset *int64 `json:"clockOffsetMs,omitempty"`
}

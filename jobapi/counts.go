package jobapi

import (
	"context"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Counter is a Jobs that counts its jobs.
type Counter interface {
	// Count counts all jobs, at a cost that grows with the number of kinds and not with that of jobs.
	Count(ctx context.Context) (Counts, error)
}

// Counts are the numbers of a scope.
type Counts struct {
	States      map[jobs.State]int
	Kinds       []KindCount // by name: those that have jobs queued or running
	DeadLetters int         // jobs that have failed and wait for somebody to decide; -1 if that is not known
	Total       Flow        // since the store was made; a store that has lost its data begins again
	Hours       []Flow      // the last 24 and the current one, oldest first; hours without jobs may be missing
}

// KindCount counts the jobs of a kind that have not ended.
type KindCount struct {
	Kind            string // without the scope
	Queued, Running int
	Oldest          time.Time // when the queued job that waits longest was created; zero without one
}

// Flow is how many jobs came and ended.
type Flow struct {
	Start                           time.Time // of the hour; zero for a total
	In, Succeeded, Failed, Canceled int64
}

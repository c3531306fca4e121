package worker

import (
	"context"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// AttemptHandler is a [Handler] that must know more of an attempt than its job, such as
// one whose jobs use GPUs, or have a log of their own.
type AttemptHandler interface {
	Handler
	// RunAttempt is called instead of Run. The slot is free for the next job when it has
	// returned; one with GPUs also stays taken if the worker no longer waits for that.
	RunAttempt(ctx context.Context, a jobs.Attempt) (jobs.Result, error)
}

// TimeLimiter is a [Handler] whose jobs have a time limit of their own.
type TimeLimiter interface {
	// TimeLimit is for one attempt, instead of Worker.JobTimeout; 0 for that one.
	TimeLimit() time.Duration
}

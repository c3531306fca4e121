package worker

import (
	"context"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Attempt is one attempt at a job, as its handler sees it.
type Attempt struct {
	Job      jobs.Job
	Slot     Slot
	Number   int       // which start of the job this is, from 1
	Failures int       // how many earlier attempts have failed and were to be made again
	Deadline time.Time // when the handler will be told to stop
	// Report records progress. It never blocks and may be called concurrently.
	Report func(jobs.Progress)
	// Log adds a line to the job's log. It never blocks and may be called concurrently. Of
	// lines that come faster than they can be written, some are left out.
	Log func(line string)
}

// AttemptHandler is a [Handler] that must know more of an attempt than its job, such as
// one whose jobs use GPUs, or have a log of their own.
type AttemptHandler interface {
	Handler
	// RunAttempt is called instead of Run. The slot is free for the next job when it has
	// returned; one with GPUs also stays taken if the worker no longer waits for that.
	RunAttempt(ctx context.Context, a Attempt) (jobs.Result, error)
}

// TimeLimiter is a [Handler] whose jobs have a time limit of their own.
type TimeLimiter interface {
	// TimeLimit is for one attempt, instead of Worker.JobTimeout; 0 for that one.
	TimeLimit() time.Duration
}

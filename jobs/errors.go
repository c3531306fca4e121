package jobs

import (
	"errors"
	"time"
)

// The errors a worker tells apart. Whatever else a handler returns is the
// job's own failure, which is final unless it is a [Failure] that asks for another attempt.
var (
	// ErrUnavailable marks trouble with the infrastructure: a store, a queue or
	// a database cannot be reached or refuses to work. It is not the job's
	// fault, so nothing is recorded and the job runs again later.
	ErrUnavailable = errors.New("infrastructure unavailable")
	// ErrLeaseLost means that the job now belongs to another worker, or will before
	// it could end. Its worker stops and writes nothing more.
	ErrLeaseLost = errors.New("lease lost")
	// ErrCanceled means that the job was asked to stop.
	ErrCanceled = errors.New("job canceled")
	// ErrTimeout means that a job was stopped because it ran for too long, and
	// ErrStalled because it showed no progress. Both are the job's own failure.
	ErrTimeout = errors.New("job timeout")
	ErrStalled = errors.New("no progress")
	// ErrDrained means that the worker is shutting down and has no more time for the
	// job. The job goes back to the queue.
	ErrDrained = errors.New("worker stopped")
)

// Failure is an error with which a handler tells programs what kind of failure it
// was. Sources that run failed jobs again use it; Pub/Sub does not.
type Failure struct { //nolint:errname // a failure is a job's, an error a function's: docs/words.md
	Code   string // a word in capitals, such as QE_INPUT_ERROR
	Final  bool   // running the job again cannot help
	Detail string // text for people that is too long for an error, such as the last lines of a log
	Err    error

	// Retry asks for another attempt after RetryAfter, which counts up to MaxRetryAfter, by the
	// policy of the job's kind. A failure that does not ask for one is recorded.
	Retry      bool
	RetryAfter time.Duration
}

// MaxRetryAfter is the longest time between two attempts: what is known of a job is kept for
// a day.
const MaxRetryAfter = 12 * time.Hour

// Error returns the text of Err.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

package custom

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// unavailable marks an error of the worker's own disk, which is not the job's fault.
func unavailable(err error) error { return fmt.Errorf("%w: %w", jobs.ErrUnavailable, err) }

// Failure is a failure of a job that says how it is to be taken.
type Failure struct { //nolint:errname // a failure is a job's, an error a function's: docs/words.md
	Code   string        // as [jobs.Failure.Code]
	Final  bool          // another attempt would fail as well
	Again  bool          // another attempt is wanted, even if the kind has no retries: at most 10
	After  time.Duration // before that; 0 for the kind's own choice
	Detail string        // further text for people, such as what a program wrote last
	Err    error
}

// Error returns the text of Err.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// mostAgain is how many attempts follow, at most, on failures that ask for another one.
const mostAgain = 10

// failure returns what the worker is told of err: by the policy of the kind, whether the job
// runs again, and when.
func (a *Attempt) failure(err error) error {
	if errors.Is(err, jobs.ErrUnavailable) {
		return err
	}
	f := &Failure{Code: "JOB_FAILED", Err: err}
	errors.As(err, &f)
	told := &jobs.Failure{Code: f.Code, Final: f.Final, Detail: a.placeholders(f.Detail), Err: a.withoutPaths(err)}
	retries := a.Kind.Retries
	if f.Again {
		retries = max(retries, mostAgain)
	}
	if !f.Final && a.Failures < retries {
		told.Retry, told.RetryAfter = true, cmp.Or(f.After, backoff(a.Kind, a.Failures))
	}
	return told
}

// backoff is how long to wait after a failure that follows on so many others.
func backoff(k *kinds.Kind, failures int) time.Duration {
	wait := float64(k.Backoff) * math.Pow(2, float64(min(failures, 100)))
	return time.Duration(min(wait, float64(max(k.Backoff, k.BackoffMax))))
}

package engine

// Run is what a step of a running job may tell of it. What it is told passes
// through package redact before anybody sees it. Its methods may be called
// concurrently, and do nothing once the step has returned or the job has ended.
type Run interface {
	// ID is the id of the job.
	ID() string
	// Logf adds a line to the job's log.
	Logf(format string, args ...any)
	// Message says what the step is doing.
	Message(text string)
	// Result sets what the job has made, for JSON: an object. The last call counts,
	// and only if the job succeeds.
	Result(v any)
}

// Failure is an error by which a step says what the job's error shall be. Other
// errors have the code FAILED and their text as the message, those that wrap
// [jobs.ErrUnavailable] the code UPSTREAM_UNAVAILABLE, and a [jobapi.Refusal] its own.
type Failure struct { //nolint:errname // a failure is a job's, an error a function's: docs/words.md
	Code    string // a word in capitals
	Details map[string]any
	Err     error
}

// Error returns the text of Err.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

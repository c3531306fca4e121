package jobapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Jobs are the jobs of one scope, to be read and canceled. Its methods may be
// called concurrently. What it returns is a copy as of one time. An error that
// wraps [jobs.ErrUnavailable] means that the store of the jobs cannot be reached; a
// [Refusal] is passed on as it is.
//
// No text in what it returns holds a secret: an implementation shows what others have
// written with [ShownText], [ShownCode] and [ShownLines].
type Jobs interface {
	// List returns jobs, the newest first: by createdAt, then by id, both
	// descending. A page may be shorter than q.Limit, even empty, although Next names
	// another page.
	List(ctx context.Context, q Query) (Page, error)
	// Get returns the jobs with these ids, at most [MaxGet], in their order, at the
	// cost of one call. Unknown ids are left out.
	Get(ctx context.Context, ids []string) ([]Job, error)
	// Log returns the end of a job's log, oldest line first. The error wraps
	// [fs.ErrNotExist] when there is no such job; a job without a log has no lines.
	Log(ctx context.Context, id string, q LogQuery) (Log, error)
	// Cancel asks for a job to be stopped and returns it as it is then: canceled,
	// or still running until its worker has stopped it. The error wraps
	// [fs.ErrNotExist], or [ErrEnded] when the job has ended already.
	Cancel(ctx context.Context, id string) (Job, error)
}

// MaxGet is how many jobs one call of Get may ask for.
const MaxGet = 200

// ErrEnded means that a job cannot be canceled because it has ended.
var ErrEnded = errors.New("job has ended")

// NoJob returns the error for a job that does not exist; it wraps [fs.ErrNotExist].
func NoJob(id string) error { return fmt.Errorf("job %.40q: %w", id, fs.ErrNotExist) }

// Query selects jobs to list.
type Query struct {
	Status jobs.State // 0 for any
	Type   string     // empty for any; an unknown type has no jobs
	Limit  int        // 1 to 200
	Cursor string     // Next of an earlier page; empty for the first. One that no page had is a [FieldError].
	Until  time.Time  // only jobs that were created before; zero for any. A list begins there at no cost.
}

// Page is a part of a list.
type Page struct {
	Items []Item
	Next  string // empty when there are no more
}

// LogQuery selects lines of a log: the last Tail of those after After and not older
// than Since.
type LogQuery struct {
	Tail  int       // lines at most, positive
	Since time.Time // when they were written; zero for any
	After string    // Pos of a line, or LogStart; empty for all. With it, the first Tail lines are returned, not the last.
}

// LogStart is the position before the first line of every log. No line has it.
const LogStart = "0"

// Log is a part of a job's log.
type Log struct {
	Lines   []Line
	Dropped int // how many lines the log has lost at its beginning, if that is known
}

// Line is one line of a log, without its line end.
type Line struct {
	Pos  string // its position in the log, which no later line has; it matches [0-9-]{1,40}
	Time time.Time
	Text string
}

// Notifier is a Jobs that tells when its jobs change, so that they need not be
// polled.
type Notifier interface {
	// Changed returns a channel that is closed at the next change of any job or log.
	Changed() <-chan struct{}
}

// Runner is a Jobs whose jobs are started through this API.
type Runner interface {
	Jobs
	// Operations returns what can be run, by name: "start" of scope system makes
	// jobs of type system.start.
	Operations() []string
	// NewRequest returns an empty request of an operation, to be filled from JSON.
	NewRequest(operation string) Request
	// Create makes a job of a request that has been checked. The error is a
	// [Refusal] when there is no room for it.
	Create(ctx context.Context, operation string, r Request) (Job, error)
	// Plan returns what a job would do, without doing it.
	Plan(ctx context.Context, operation string, r Request) ([]Planned, error)
}

// Request is what an operation is asked to do: a pointer to a struct that the
// body is read into. It embeds [Options].
type Request interface {
	// Check returns what is wrong with the values, a [FieldError], or nil. It
	// fills in defaults.
	Check() error
	// Common returns what all requests have.
	Common() *Options
}

// Options are the fields that every request may have.
type Options struct {
	DryRun    bool   `json:"dryRun,omitempty"`
	TimeoutMs *int64 `json:"timeoutMs,omitempty"` // from the job's start; MinTimeout to MaxTimeout
}

// Common implements [Request].
func (o *Options) Common() *Options { return o }

// The limits of timeoutMs and pollIntervalMs.
const (
	MinTimeout      = time.Second
	MaxTimeout      = 24 * time.Hour
	MinPollInterval = 200 * time.Millisecond
	MaxPollInterval = time.Minute
)

// Planned is a step of a dry run.
type Planned struct {
	Step   string `json:"step"`
	Action string `json:"action"` // skip or run
	Reason string `json:"reason"`
}

package jobapi

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Job is a job on the wire, seed 002 §4.1. All keys but the last three are always there;
// a key without a value is null, and steps is [].
type Job struct {
	ID         string          `json:"jobId"`
	Scope      string          `json:"scope"`
	Type       string          `json:"type"`
	Status     jobs.State      `json:"status"` // queued, running, succeeded, failed or canceled
	CreatedAt  Time            `json:"createdAt"`
	StartedAt  Time            `json:"startedAt"`
	FinishedAt Time            `json:"finishedAt"`
	Request    json.RawMessage `json:"request"` // an object: the fields of the request that may be shown
	Progress   Progress        `json:"progress"`
	Steps      []Step          `json:"steps"`
	Result     json.RawMessage `json:"result"` // an object once the job has succeeded
	Error      *Error          `json:"error"`  // once it has failed

	// Of jobs that workers run.
	Attempt int    `json:"attempt,omitempty"` // which start of the job this is, from 1
	Worker  string `json:"worker,omitempty"`  // that runs it, or ran it last
	// Silent is for how many seconds nothing was heard of the worker of a running job, in steps
	// of ten, if it should have been.
	Silent int `json:"workerSilentSeconds,omitempty"`
	// Attempts are the earlier ones, oldest first: the newest 10.
	Attempts []Attempt `json:"attempts,omitempty"`

	// TraceID is that of the spans of the job, 32 hexadecimal digits, if it has any.
	TraceID string `json:"traceId,omitempty"`

	// Version differs between any two states of a job that differ on the wire.
	// It matches [A-Za-z0-9]{1,32}.
	Version string `json:"-"`
}

// Attempt is a start of a job that is over.
type Attempt struct {
	Number   int    `json:"attempt"`
	Worker   string `json:"worker,omitempty"`
	Started  Time   `json:"startedAt"`
	Finished Time   `json:"finishedAt"`
	Outcome  string `json:"outcome"` // failed, crashed, handed back, canceled or succeeded
	Message  string `json:"message"` // why
}

// MarshalJSON implements [json.Marshaler].
func (j Job) MarshalJSON() ([]byte, error) {
	type plain Job // without this method
	if j.Steps == nil {
		j.Steps = []Step{}
	}
	return json.Marshal(plain(j))
}

// SetVersion gives a complete job a version: a hash of all that is shown.
func (j *Job) SetVersion() error {
	text, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("show job %s: %w", j.ID, err)
	}
	sum := fnv.New64a()
	_, _ = sum.Write(text)
	j.Version = strconv.FormatUint(sum.Sum64(), 16)
	return nil
}

// Item is a job in a list.
type Item struct {
	ID         string     `json:"jobId"`
	Scope      string     `json:"scope"`
	Type       string     `json:"type"`
	Status     jobs.State `json:"status"`
	CreatedAt  Time       `json:"createdAt"`
	StartedAt  Time       `json:"startedAt"`
	FinishedAt Time       `json:"finishedAt"`
	Attempt    int        `json:"attempt,omitempty"`
	Worker     string     `json:"worker,omitempty"`
	Silent     int        `json:"workerSilentSeconds,omitempty"`
}

// Item returns what a list shows of the job.
func (j *Job) Item() Item {
	return Item{
		ID: j.ID, Scope: j.Scope, Type: j.Type, Status: j.Status, CreatedAt: j.CreatedAt, StartedAt: j.StartedAt,
		FinishedAt: j.FinishedAt, Attempt: j.Attempt, Worker: j.Worker, Silent: j.Silent,
	}
}

// Progress counts steps. A skipped step counts as completed; one that was
// canceled, has failed or waits does not.
type Progress struct {
	Current   int `json:"currentStep"` // from 1; 0 before the first
	Total     int `json:"totalSteps"`
	Completed int `json:"completedSteps"`
}

// Step is a part of a job. The order of a job's steps never changes.
type Step struct {
	Name       string     `json:"name"`
	Status     StepStatus `json:"status"`
	StartedAt  Time       `json:"startedAt"`
	FinishedAt Time       `json:"finishedAt"`
	Message    string     `json:"message"` // what it does, has done, why it was skipped, has failed or waits again
}

// ProgressOf returns the progress of a job with these steps.
func ProgressOf(steps []Step) Progress {
	p := Progress{Total: len(steps)}
	for i, s := range steps {
		if s.Status != Pending && !s.StartedAt.IsZero() {
			p.Current = i + 1
		}
		if s.Status == Skipped || s.Status == Succeeded {
			p.Completed++
		}
	}
	return p
}

// Error is why a job has failed. It is data; errors of requests are [Refusal].
type Error struct {
	Code    string         `json:"code"` // a word in capitals, such as TIMEOUT
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

// The codes of failed jobs that the API itself gives.
const (
	CodeTimeout  = "TIMEOUT"  // it took longer than its timeoutMs
	CodeFailed   = "FAILED"   // it has no code of its own
	CodeInternal = "INTERNAL" // a mistake in the program; its log says more
)

// MarshalJSON implements [json.Marshaler].
func (e Error) MarshalJSON() ([]byte, error) {
	type plain Error
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	return json.Marshal(plain(e))
}

// StepStatus is the status of a step. The zero value is no status.
type StepStatus uint8

// The statuses of a step.
const (
	Pending StepStatus = iota + 1
	Running
	Skipped
	Succeeded
	Failed
	Canceled
)

var stepWords = [...]string{Pending: "pending", Running: "running", Skipped: "skipped", Succeeded: "succeeded", Failed: "failed", Canceled: "canceled"}

// String returns the status in lower case, or "step(N)" for a number that is none.
func (s StepStatus) String() string {
	if s < Pending || int(s) >= len(stepWords) {
		return "step(" + strconv.Itoa(int(s)) + ")"
	}
	return stepWords[s]
}

// MarshalText implements [encoding.TextMarshaler].
func (s StepStatus) MarshalText() ([]byte, error) {
	if s < Pending || int(s) >= len(stepWords) {
		return nil, fmt.Errorf("%s is no status of a step", s)
	}
	return []byte(stepWords[s]), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *StepStatus) UnmarshalText(text []byte) error {
	i := slices.Index(stepWords[:], string(text))
	if i < int(Pending) {
		return fmt.Errorf("%.40q is no status of a step", text)
	}
	*s = StepStatus(i) //nolint:gosec // one of six
	return nil
}

// Time is a moment on the wire: RFC 3339 in UTC with milliseconds and a Z, or
// null when it is zero.
type Time struct{ time.Time }

const timeFormat = "2006-01-02T15:04:05.000Z"

// At returns t for the wire, to the millisecond. A time that RFC 3339 cannot express,
// from a damaged record, becomes zero.
func At(t time.Time) Time {
	t = t.UTC().Truncate(time.Millisecond)
	if t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		return Time{}
	}
	return Time{t}
}

// MarshalJSON implements [json.Marshaler].
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.UTC().AppendFormat(make([]byte, 0, len(timeFormat)+2), `"`+timeFormat+`"`), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *Time) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*t = Time{}
		return nil
	}
	return t.Time.UnmarshalJSON(text)
}

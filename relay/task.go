package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/batchfleet/batchfleet/jobs"
)

// Task is what task.json holds. A Task that others may see does not change: see [Tasks].
type Task struct {
	SchemaVersion int        `json:"schema_version"`
	ID            jobs.ID    `json:"task_id"`
	JobID         string     `json:"job_id"` // the orchestrator's
	Kind          jobs.Kind  `json:"kind"`
	State         State      `json:"status"`
	Progress      float64    `json:"progress"` // 0 to 1, never less than before
	Artifacts     []Artifact `json:"artifacts"`
	Error         *Error     `json:"error"`

	Priority    int       `json:"priority"`
	CreatedAt   time.Time `json:"created_at"`
	StartedAt   time.Time `json:"started_at,omitzero"`   // of the last attempt
	RanAt       time.Time `json:"ran_at,omitzero"`       // when its program had succeeded
	UploadingAt time.Time `json:"uploading_at,omitzero"` // when the upload began, or began again
	FinishedAt  time.Time `json:"finished_at,omitzero"`
	Assets      []string  `json:"assets,omitempty"` // names of files in input/
	Prompt      Prompt    `json:"prompt,omitzero"`

	Attempt         int     `json:"attempt"`            // how often it was started
	Crashes         int     `json:"crashes,omitempty"`  // starts during which the relay died
	Failures        int     `json:"failures,omitempty"` // starts that failed and were to be made again
	Tried           []Tried `json:"tried,omitempty"`    // the newest of the starts that were followed by another one
	Message         string  `json:"message,omitempty"`  // for people: the newest of the program, or why the task waits
	CancelRequested bool    `json:"cancel_requested,omitempty"`

	Callback Callback `json:"callback,omitzero"`
	Sequence int      `json:"sequence"` // of its last event, also of one that was not asked for
	Events   []Event  `json:"events,omitempty"`

	// The hashes of the request that has made it, if that can be made again.
	KeyHash  string `json:"idempotency_key_sha256,omitempty"`
	BodyHash string `json:"request_sha256,omitempty"`
}

// schemaVersion counts the incompatible changes of Task.
const schemaVersion = 1

// Artifact is a file that a task has made.
type Artifact struct {
	Name        string `json:"name"`
	ContentType string `json:"content_type"`
	Size        int64  `json:"size_bytes"`
	SHA256      string `json:"sha256"` // in hex
}

// Error is why a task has failed.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Tried is a start of a task that has not ended it.
type Tried struct {
	Number    int       `json:"attempt"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	Outcome   string    `json:"outcome"` // failed, crashed or handed back
	Message   string    `json:"message"`
}

// maxTried is how many starts of a task are kept.
const maxTried = 10

// tried notes that the present start of the task is followed by another one.
func (t *Task) tried(outcome, message string, now time.Time) {
	all := append(slices.Clip(t.Tried), Tried{t.Attempt, t.StartedAt, now, outcome, jobs.Clip(message, maxReason, "…")})
	t.Tried = all[max(0, len(all)-maxTried):]
}

// Prompt is all that is known of a prompt outside of input/request.json.
type Prompt struct {
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"` // the first 16 digits, in hex
}

// Codes of failures that the contract gives names of its own.
const (
	codeExecFailed   = "EXEC_FAILED"
	codeTimeout      = "TIMEOUT"
	codeNoArtifacts  = "NO_ARTIFACTS"
	codeGPUOOM       = "GPU_OOM"
	codeInterrupted  = "INTERRUPTED"
	codeUploadFailed = "UPLOAD_FAILED"
	codeInputDamaged = "INPUT_DAMAGED"
)

// view is a task as the contract shows it.
type view struct {
	ID        jobs.ID    `json:"task_id"`
	JobID     string     `json:"job_id"`
	Kind      jobs.Kind  `json:"kind"`
	State     State      `json:"status"`
	Progress  float64    `json:"progress"`
	Artifacts []Artifact `json:"artifacts"`
	Error     *Error     `json:"error"`
}

func (t *Task) view() view {
	v := view{ID: t.ID, JobID: t.JobID, Kind: t.Kind, State: t.State, Progress: t.Progress, Artifacts: t.Artifacts, Error: t.Error}
	if v.Artifacts == nil {
		v.Artifacts = []Artifact{}
	}
	return v
}

// become moves the task to another state, and notes the event of it. It changes nothing if the task may not
// go there.
func (t *Task) become(next State, now time.Time) error {
	before := t.State
	if !before.mayBecome(next) {
		return fmt.Errorf("task %s is %s and cannot become %s", t.ID, t.State, next)
	}
	t.State = next
	switch next {
	case Queued:
	case Running:
		t.StartedAt = now
	case Uploading:
		if before == Running {
			t.RanAt = now
		}
		t.UploadingAt, t.FinishedAt, t.Error, t.Message = now, time.Time{}, nil, ""
	case Succeeded:
		t.Progress = 1
		fallthrough
	case Failed, Canceled:
		t.FinishedAt, t.CancelRequested, t.Message = now, false, ""
	}
	t.note(next.String(), now)
	return nil
}

// advance raises the progress, and reports whether it was raised. Only a task that has succeeded is complete.
func (t *Task) advance(p jobs.Progress) bool {
	if p.Total <= 0 || p.Done <= 0 {
		return false
	}
	const almost = 0.99
	done := math.Round(min(float64(p.Done)/float64(p.Total), almost)*1e4) / 1e4
	if done <= t.Progress {
		return false
	}
	t.Progress = done
	return true
}

// artifact returns the artifact of that name.
func (t *Task) artifact(name string) (Artifact, bool) {
	i := slices.IndexFunc(t.Artifacts, func(a Artifact) bool { return a.Name == name })
	if i < 0 {
		return Artifact{}, false
	}
	return t.Artifacts[i], true
}

// idPrefix begins the id of each task; a ULID follows.
const idPrefix = "task_"

// newID returns the id of a task that is created at the given time. Ids are in the order of their times.
func newID(now time.Time) jobs.ID {
	return jobs.ID(idPrefix + ulid.MustNew(ulid.Timestamp(now), ulid.DefaultEntropy()).String())
}

// isID reports whether s has the form of a task's id.
func isID(s string) bool {
	if len(s) != len(idPrefix)+ulid.EncodedSize || s[:len(idPrefix)] != idPrefix {
		return false
	}
	id, err := ulid.ParseStrict(s[len(idPrefix):])
	return err == nil && id.String() == s[len(idPrefix):]
}

// parse reads a task.json of the task with this id.
func parse(id jobs.ID, text []byte) (*Task, error) {
	var t Task
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, err
	}
	_, badJob := jobs.ParseID(t.JobID)
	_, badKind := jobs.ParseID(string(t.Kind))
	switch {
	case t.SchemaVersion != schemaVersion:
		return nil, fmt.Errorf("schema_version is %d, want %d", t.SchemaVersion, schemaVersion)
	case t.ID != id:
		return nil, fmt.Errorf("task_id is %.60q", t.ID)
	case badJob != nil || badKind != nil || t.State == 0 || t.CreatedAt.IsZero():
		return nil, errors.New("job_id, kind, status or created_at is missing or wrong")
	case !(t.Progress >= 0 && t.Progress <= 1) || t.Priority < -maxPriority || t.Priority > maxPriority:
		return nil, errors.New("progress or priority is out of range")
	case t.State == Failed && t.Error == nil:
		return nil, errors.New("it has failed without an error")
	}
	for _, a := range t.Artifacts {
		if !validName(a.Name) || a.Size < 0 || len(a.SHA256) != 64 {
			return nil, fmt.Errorf("artifact %.60q is wrong", a.Name)
		}
	}
	for _, name := range t.Assets {
		if !validName(name) {
			return nil, fmt.Errorf("asset %.60q is wrong", name)
		}
	}
	// Many are kept in memory: the decoder leaves room for more, and most have the same events.
	t.Artifacts = slices.Clone(t.Artifacts)
	if slices.Equal(t.Callback.Events, allEvents) {
		t.Callback.Events = allEvents
	}
	return &t, nil
}

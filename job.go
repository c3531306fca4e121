package batchfleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/processor/custom"
)

// Job is one attempt at a job. Its methods may be called concurrently, until Run returns.
type Job struct {
	attempt *custom.Attempt

	mu    sync.Mutex
	files []*os.File
}

// ID returns the job's id, by which it recognizes its earlier work elsewhere.
func (j *Job) ID() string { return string(j.attempt.Job.ID) }

// Attempt returns which attempt this is, from 1.
func (j *Job) Attempt() int { return j.attempt.Number }

// Input returns the path of the job's first input, and "" if it has none. The file is a copy of the
// object that the job names, to be read only.
func (j *Job) Input() string { return append(j.Inputs(), "")[0] }

// Inputs returns the paths of all inputs, in the order in which the job names them.
func (j *Job) Inputs() []string { return append([]string{}, j.attempt.Inputs...) }

// Params reads the parameters of the job into a struct, as [encoding/json] does. A parameter that the
// struct has no field for, or of another type, is an error that is [Final]; return it.
func (j *Job) Params(into any) error {
	d := json.NewDecoder(bytes.NewReader(j.attempt.Params))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &custom.Failure{Code: "INVALID_PARAMS", Final: true, Err: fmt.Errorf("params: %s", strings.TrimPrefix(err.Error(), "json: "))}
	}
	return nil
}

// Create makes a file that becomes an artifact of the job when Run returns nil. Its name has letters,
// digits, ".", "_" and "-". It is closed after Run, if it is not closed before.
func (j *Job) Create(name string) (*os.File, error) {
	if err := artifact.CheckName(name); err != nil {
		return nil, Final(err)
	}
	dir, err := j.attempt.Dir()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir.Output, name), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.files = append(j.files, f)
	return f, nil
}

// Progress tells how far the job is: done of total steps, and what it does, for people. It never
// blocks and may be called as often as you like.
func (j *Job) Progress(done, total int, message string) {
	if message == "" {
		message = fmt.Sprintf("Step %d/%d", done, total)
	}
	j.attempt.Progress(jobs.Progress{Done: done, Total: total, Step: "run", Message: message})
}

// Log adds a line to the job's log. It never blocks; of lines that come faster than they can be
// written, some are left out.
func (j *Job) Log(format string, args ...any) { j.attempt.Log(fmt.Sprintf(format, args...)) }

// Checkpoint returns a directory whose files are there again in the next attempt at the job: on the
// same machine, and with MaxCheckpoint on any. Write a file under a name that begins with "." and
// rename it, so that no attempt finds half of it.
func (j *Job) Checkpoint() string {
	path, err := j.attempt.Checkpoint()
	if err != nil {
		return missing
	}
	return path
}

// Dir returns an empty directory for temporary files. It is deleted after Run.
func (j *Job) Dir() string {
	dir, err := j.attempt.Dir()
	if err != nil {
		return missing
	}
	return dir.Work
}

// missing is the path of a directory that could not be made. Nothing can be there; the context of Run has
// ended, and the job runs again.
var missing = filepath.Join(os.DevNull, "missing")

// GPUs returns the indices of the GPUs that the job holds, as many as its kind says.
func (j *Job) GPUs() []int { return append([]int{}, j.attempt.Slot.GPUs...) }

// Final marks an error with which no other attempt would end better: the job has failed, whatever
// Retries says.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &custom.Failure{Code: "JOB_FAILED", Final: true, Err: err}
}

// RetryAfter marks an error after which the job is to run again after d, at most ten times, even if
// its kind has no Retries.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &custom.Failure{Code: "JOB_FAILED", Again: true, After: max(d, time.Second), Err: err}
}

// do runs the function for one attempt.
func (k Kind) do(ctx context.Context, a *custom.Attempt) (err error) {
	j := &Job{attempt: a}
	defer func() {
		if p := recover(); p != nil {
			stack := string(debug.Stack())
			for line := range strings.Lines(stack) {
				a.Log(strings.ReplaceAll(strings.TrimSpace(line), "\t", "  "))
			}
			err = &custom.Failure{Code: "PANIC", Detail: stack, Err: fmt.Errorf("panic: %v", p)}
		}
		err = errors.Join(err, j.close())
	}()
	a.Progress(jobs.Progress{Step: "run", Message: "Running " + k.Name, Logged: true}) // it would come behind the first lines
	return k.Run(ctx, j)
}

// close closes the files that the function has left open.
func (j *Job) close() (err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, f := range j.files {
		if closed := f.Close(); closed != nil && !errors.Is(closed, os.ErrClosed) {
			err = errors.Join(err, closed)
		}
	}
	return err
}

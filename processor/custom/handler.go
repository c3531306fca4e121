// Package custom runs the jobs of people's own kinds, whatever runs them: a program of the kinds
// file, or a function in Go. It gives each attempt directories of its own, the inputs as files, the
// parameters and the checkpoint, and makes the result of the files that are left.
//
// The walk of an attempt: check the parameters, fetch the inputs, restore the checkpoint, run,
// collect the outputs, store them, store the result last ([artifact]).
package custom

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/scratch"
	"github.com/batchfleet/batchfleet/storage"
)

// Handler runs the jobs of one kind. Its methods may be called concurrently.
type Handler struct {
	Kind    *kinds.Kind
	Store   storage.Store
	Scratch *scratch.Root
	// Do does the work of an attempt: it leaves files in the output of its Dir. An error that wraps
	// [jobs.ErrUnavailable] is the worker's fault, and the cause of ctx is not the job's
	// either; any other is a failure of the job, and a [Failure] says more of it.
	Do func(ctx context.Context, a *Attempt) error
	// CheckpointEvery is how often a checkpoint that has changed is stored, if the kind's
	// checkpoints travel; 30 s when zero.
	CheckpointEvery time.Duration
	// Inline is how large a result may be, in bytes, that is not stored: who records the outcome of the job
	// keeps it. Zero means that all are stored.
	Inline int
	// Rename stores an output whose name not every system can have under another one: [artifact.PortableName]. Without
	// it such a name is a failure.
	Rename bool
	Log    *slog.Logger
}

// TimeLimit implements the worker's handler.
func (h *Handler) TimeLimit() time.Duration { return h.Kind.Timeout }

// Earlier implements the worker's handler: it finds the result of an attempt that ended before
// its outcome could be recorded.
func (h *Handler) Earlier(ctx context.Context, job jobs.Job) (jobs.Result, bool, error) {
	job.Kind = h.Kind.Name
	earlier, found, err := Earlier(ctx, h.Store, job, h.Log)
	if err != nil || !found {
		return jobs.Result{}, false, err
	}
	h.forgetLocal(ctx, job.ID)
	h.forgetStored(ctx, job.ID)
	return earlier.Outcome(), true, nil
}

// Earlier returns the stored result of a job of any of people's own kinds, and reports whether there is one of this
// kind and these inputs.
func Earlier(ctx context.Context, store storage.Store, job jobs.Job, log *slog.Logger) (artifact.Result, bool, error) {
	earlier, err := artifact.Stored(ctx, store, job.ID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return artifact.Result{}, false, nil
	case err != nil && !errors.Is(err, fs.ErrInvalid):
		return artifact.Result{}, false, fmt.Errorf("look for an earlier result: %w", err)
	case err != nil || earlier.Kind != string(job.Kind) || !sameInputs(earlier.Inputs, inputsOf(job)):
		log.WarnContext(ctx, "earlier result is unreadable or of another job with this id, and will be replaced", "job", job.ID, "err", err)
		return artifact.Result{}, false, nil
	}
	return earlier, true, nil
}

func sameInputs(earlier []artifact.Input, names []string) bool {
	if len(earlier) != len(names) {
		return false
	}
	for i, in := range earlier {
		if in.Name != names[i] {
			return false
		}
	}
	return true
}

// Discard implements the worker's handler.
func (h *Handler) Discard(ctx context.Context, job jobs.Job) error {
	h.forgetLocal(ctx, job.ID)
	return artifact.Discard(ctx, h.Store, job.ID)
}

// Run implements the worker's handler for callers that know no attempts.
func (h *Handler) Run(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	return h.RunAttempt(ctx, jobs.Attempt{Job: job, Number: 1, Report: report, Log: func(string) {}})
}

// Attempt is one attempt at a job.
type Attempt struct {
	jobs.Attempt
	Kind   *kinds.Kind
	Params json.RawMessage // checked, with defaults; an object
	Inputs []string        // the files of the inputs, in the order of the job
	// Artifacts are further files to store as outputs, by name.
	Artifacts map[string]string

	handler *Handler
	began   time.Time
	inputs  []artifact.Input

	mu     sync.Mutex
	last   jobs.Progress
	places places
}

// Progress reports progress. It never blocks and may be called concurrently.
func (a *Attempt) Progress(p jobs.Progress) {
	a.mu.Lock()
	a.last = p
	a.mu.Unlock()
	a.Report(p)
}

// alive reports the last progress once more.
func (a *Attempt) alive() {
	a.mu.Lock()
	p := a.last
	a.mu.Unlock()
	a.Report(p)
}

// RunAttempt implements the worker's handler.
func (h *Handler) RunAttempt(ctx context.Context, wa jobs.Attempt) (jobs.Result, error) {
	a := &Attempt{Attempt: wa, Kind: h.Kind, handler: h, began: time.Now()}
	result, err := a.run(ctx)
	if err == nil {
		return result, nil
	}
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(cause, jobs.ErrTimeout) || errors.Is(cause, jobs.ErrStalled) {
		err = a.failure(cmp.Or(cause, err)) // the worker knows the code of such a cause
	} else {
		err = cause
	}
	if isFinal(err) && jobs.Held(ctx) == nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if err := h.Discard(cleanup, a.Job); err != nil {
			h.Log.WarnContext(ctx, "cannot delete what a job has left", "job", a.Job.ID, "err", err)
		}
	}
	return jobs.Result{}, err
}

// isFinal reports whether a job whose attempt has ended with err will not run again.
func isFinal(err error) bool {
	f, ok := errors.AsType[*jobs.Failure](err)
	return ok && !f.Retry || errors.Is(err, jobs.ErrCanceled)
}

// forgetStored deletes what the storage has of the checkpoint of a job that has a result.
func (h *Handler) forgetStored(ctx context.Context, id jobs.ID) {
	if h.Kind.Checkpoints == 0 {
		return
	}
	if err := DeleteCheckpoint(ctx, h.Store, id); err != nil {
		h.Log.WarnContext(ctx, "cannot delete the checkpoint of a job that has ended", "job", id, "err", err)
	}
}

// DeleteCheckpoint deletes what the storage has of a checkpoint, if it has any.
func DeleteCheckpoint(ctx context.Context, store storage.Store, id jobs.ID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	return store.Delete(ctx, checkpointName(id))
}

// forgetLocal deletes what this machine has of a checkpoint.
func (h *Handler) forgetLocal(ctx context.Context, id jobs.ID) {
	if err := h.Scratch.DeleteCheckpoint(id); err != nil && !errors.Is(err, scratch.ErrInUse) {
		h.Log.WarnContext(ctx, "cannot delete a checkpoint", "job", id, "err", err)
	}
}

// cleanupTimeout bounds how long a job that has ended deletes its checkpoint.
const cleanupTimeout = 10 * time.Second

func (a *Attempt) run(ctx context.Context) (result jobs.Result, err error) {
	if a.Params, err = a.Kind.CheckParams(json.RawMessage(a.Job.Payload)); err != nil {
		return jobs.Result{}, &Failure{Code: "INVALID_PARAMS", Final: true, Err: err}
	}
	a.Progress(jobs.Progress{Step: "fetch", Message: "Processing started..."})
	if err := artifact.RemoveUnfinished(ctx, a.handler.Store, a.Job.ID, "", "artifacts"); err != nil {
		return jobs.Result{}, err
	}
	defer a.leave()
	if err := a.fetch(ctx); err != nil {
		return jobs.Result{}, err
	}
	if a.Kind.Checkpoints > 0 {
		if err := a.restoreCheckpoint(ctx); err != nil {
			return jobs.Result{}, err
		}
	}
	if err := a.do(ctx); err != nil {
		return jobs.Result{}, err
	}
	if result, err = a.store(ctx); err == nil {
		a.forget(ctx)
	}
	return result, err
}

// do does the work. Beside it, it reports that the job is alive, and stores checkpoints that travel.
func (a *Attempt) do(ctx context.Context) error {
	travels := a.places.checkpoint // nil if it does not
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	a.places.stop = stop
	beside, end := context.WithCancel(work)
	var running sync.WaitGroup
	running.Go(func() {
		alive := time.NewTicker(aliveEvery)
		defer alive.Stop()
		for {
			select {
			case <-beside.Done():
				return
			case <-alive.C:
				a.alive()
			case <-travels.due():
				travels.save(beside)
			}
		}
	})
	err := func() error {
		defer running.Wait()
		defer end()
		return a.handler.Do(work, a)
	}()
	err = cmp.Or(a.broken(), err)
	if err != nil && travels != nil {
		travels.saveLast(ctx)
	}
	return err
}

// aliveEvery is how often a job that says nothing is reported to be alive: how long it may be
// silent is for its kind's timeout to say, not for STALL_TIMEOUT.
const aliveEvery = 20 * time.Second

package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// KindStatus is a [Status] that keeps jobs on record whose kind a worker does not have. Its methods
// are those of [status.Store].
//
// [status.Store]: https://pkg.go.dev/github.com/batchfleet/batchfleet/status#Store
type KindStatus interface {
	Status
	Leave(ctx context.Context, job jobs.Job, message string) (age time.Duration, state jobs.State, err error)
	Runs(ctx context.Context, kind jobs.Kind) (bool, error)
}

// leaveDelay is for how long a job is handed back whose kind this worker does not have: 10 to
// 60 s, at random so that it meets others.
func leaveDelay() time.Duration { return 10*time.Second + rand.N(50*time.Second) }

// leave hands a job back whose kind this worker does not have, so that another one may take it, and
// reports whether it has. It was not claimed. A job that has ended, or that has waited for
// KindTimeout without a live worker for it, is not left: its claim tells what is to be done.
func (w *Worker) leave(ctx context.Context, lease jobs.Lease) bool {
	job := lease.Job
	if job.ID == "" || lease.Invalid != nil || !w.mayWait(ctx, job) {
		return false
	}
	delay := leaveDelay()
	w.Log.InfoContext(ctx, "no handler for this kind, job left to other workers", "job", job.ID, "kind", job.Kind, "delivery", lease.Delivery, "retry_in", delay)
	w.Metrics.handedBack.WithLabelValues("other_kind").Inc()
	w.nack(ctx, lease, delay)
	return true
}

// mayWait reports whether a job is to wait for a worker that has its kind.
func (w *Worker) mayWait(ctx context.Context, job jobs.Job) bool {
	s, ok := w.Status.(KindStatus)
	if !ok {
		return true
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	age, state, err := s.Leave(call, job, fmt.Sprintf("no worker for kind %q has taken it yet", job.Kind))
	live := true
	if err == nil && state == jobs.Queued && age.Milliseconds() >= w.KindTimeout.Milliseconds() {
		live, err = s.Runs(call, job.Kind)
	}
	if err != nil {
		if ctx.Err() == nil {
			w.readiness.fail(err)
		}
		return true
	}
	return live && !state.Terminal()
}

// noWorker is the failure of a job that has waited for so long.
func noWorker(kind jobs.Kind) error {
	return &jobs.Failure{Code: "NO_WORKER_FOR_KIND", Final: true, Err: fmt.Errorf("no worker of this fleet runs jobs of kind %q", kind)}
}

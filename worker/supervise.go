package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
	"github.com/batchfleet/batchfleet/trace"
)

// handle runs f under the job's limits and returns the outcome. An error means that
// there is none: the job is handed back.
func (a *attempt) handle(ctx context.Context, f handling) (jobs.Outcome, error) {
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	result, err := a.supervise(ctx, running, stop, f)
	if err == nil {
		return jobs.Outcome{State: jobs.Succeeded, Result: result}, nil
	}
	switch cause := context.Cause(running); {
	case cause == nil && errors.Is(err, jobs.ErrUnavailable):
		return jobs.Outcome{}, err
	case cause == nil:
		return failure(err), nil
	case errors.Is(cause, jobs.ErrCanceled):
		return jobs.Outcome{State: jobs.Canceled}, nil
	case errors.Is(cause, jobs.ErrTimeout), errors.Is(cause, jobs.ErrStalled):
		o := failure(cause)
		if f, ok := errors.AsType[*jobs.Failure](err); ok { // its kind may run it again
			retryAsAsked(&o, f)
		}
		o.Code = "JOB_STALLED"
		if errors.Is(cause, jobs.ErrTimeout) {
			o.Code = "JOB_TIMEOUT"
		}
		return o, nil
	default: // the lease is lost, the worker is stopping, or storage or Redis is away
		return jobs.Outcome{}, cause
	}
}

func failure(err error) jobs.Outcome {
	o := jobs.Outcome{State: jobs.Failed, Reason: redact.Reason(err.Error())}
	if f := (*jobs.Failure)(nil); errors.As(err, &f) {
		o.Code, o.Final, o.Detail = f.Code, f.Final, redact.Reason(f.Detail)
		retryAsAsked(&o, f)
	}
	return o
}

// retryAsAsked makes an outcome one after which the job runs again, if f asks for that.
func retryAsAsked(o *jobs.Outcome, f *jobs.Failure) {
	if f.Retry && !f.Final {
		o.Retry, o.RetryAfter = true, max(0, min(f.RetryAfter, jobs.MaxRetryAfter))
	}
}

// handling is the part of an attempt that is supervised.
type handling func(ctx context.Context, rep *reporter) (jobs.Result, error)

// How long a handler may go on after it was told to stop, before it is abandoned. A
// handler that hangs in the kernel must not keep its slot and its job, and a worker
// that is out of time cannot wait at all.
const (
	abandonAfter        = 30 * time.Second
	abandonDrainedAfter = time.Second / 2
)

// supervise runs f and its reporter. It stops f when the job has run or been
// silent for too long, and abandons one that does not stop. ctx is the
// attempt's and running, its child, the handler's, which stop ends.
func (a *attempt) supervise(ctx, running context.Context, stop context.CancelCauseFunc, f handling) (_ jobs.Result, failed error) {
	rep := &reporter{attempt: a, stop: stop, began: time.Now(), moved: time.Now(), wake: make(chan struct{}, 1), now: true}
	var reporting sync.WaitGroup
	ended := make(chan struct{})
	if trace.On(ctx) {
		a.steps.ctx = ctx //nolint:fatcontext // it is that of the attempt, once
	}
	reporting.Go(func() { rep.run(ctx, ended) })
	defer func() {
		a.steps.end(failed)
		close(ended)
		reporting.Wait()
		rep.end(ctx, failed == nil)
	}()

	var result jobs.Result
	var err error
	done := make(chan struct{})
	go func() { // joined by the select below, unless abandoned there
		defer close(done)
		defer a.recoverInto(ctx, a.lease.Job, &err)
		result, err = f(running, rep)
	}()

	limit := a.timeLimit()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	silence := time.NewTimer(a.StallTimeout)
	defer silence.Stop()
	var abandon <-chan time.Time
	stopped, drained := running.Done(), ctx.Done()
	for {
		select {
		case <-done:
			return result, err
		case <-timeout.C:
			stop(rep.tooSlow(fmt.Errorf("%w: it did not end within %s", jobs.ErrTimeout, limit)))
		case <-silence.C:
			if left := a.StallTimeout - rep.stalled(); left > 0 {
				silence.Reset(left)
				continue
			}
			stop(rep.tooSlow(fmt.Errorf("%w for %s", jobs.ErrStalled, a.StallTimeout)))
		case <-stopped:
			stopped = nil
			abandon = time.After(abandonAfter)
		case <-drained: // also when it is being stopped for another reason
			drained = nil
			if errors.Is(context.Cause(ctx), jobs.ErrDrained) {
				stopped = nil
				abandon = time.After(abandonDrainedAfter)
			}
		case <-abandon:
			a.running = done
			a.closed.Store(true) // before the job is handed back: f may go on beside its next attempt
			a.Log.ErrorContext(ctx, "handler does not stop and is abandoned", "job", a.lease.Job.ID, "cause", context.Cause(running))
			return jobs.Result{}, context.Cause(running)
		}
	}
}

// timeLimit is how long one attempt at the job may take.
func (a *attempt) timeLimit() time.Duration {
	if h, ok := a.handler.(TimeLimiter); ok {
		return cmp.Or(h.TimeLimit(), a.JobTimeout)
	}
	return a.JobTimeout
}

// recoverInto turns a panic of a handler into the job's failure.
func (w *Worker) recoverInto(ctx context.Context, job jobs.Job, err *error) {
	if p := recover(); p != nil {
		w.Log.ErrorContext(ctx, "handler panicked", "job", job.ID, "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("internal error: %v", p)
	}
}

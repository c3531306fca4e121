package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

// attempt is one lease on its way through the worker.
type attempt struct {
	*Worker
	lease jobs.Lease
	claim jobs.Claim
	sure  *sure
	left  func() time.Duration // how long the lease still holds
	// lose ends all work under the lease: it is lost.
	lose context.CancelCauseFunc
	// release ends the extending of the lease. It comes before an ack or nack:
	// an extension that overtakes a nack would park the job for a whole lease.
	release func()
	over    atomic.Bool // nothing may become visible any more
	slot    Slot
	running <-chan struct{} // of a handler that was abandoned: closed when it has returned
}

// run sees one lease through to its end: claim, handler, settle. It returns nil, or, if
// the handler was abandoned, a channel that is closed when it has returned.
func (w *Worker) run(work context.Context, lease jobs.Lease, slot Slot) (running <-chan struct{}) {
	began := time.Now()
	w.Metrics.leased(lease)
	// ctx ends when the lease is lost or the worker has no more time; what ends
	// only the handler (a cancel, a timeout) has an outcome to record under it.
	ctx, lose := context.WithCancelCause(work)
	defer lose(nil)
	holding, release := w.held.add(lease, lose)
	defer release()
	claim := jobs.Claim{Queue: lease.Raw.Queue, Ack: lease.Raw.Ack}
	a := &attempt{Worker: w, lease: lease, slot: slot, claim: claim, sure: &sure{}, lose: lose, release: release, left: func() time.Duration { return w.held.left(holding) }}
	defer a.over.Store(true)

	if err := a.process(jobs.WithHold(ctx, a.stillHeld), began); err != nil {
		a.giveUp(ctx, err)
	}
	return a.running
}

// process takes the attempt from its claim to its ack. An error says that the lease
// is still held.
func (a *attempt) process(ctx context.Context, began time.Time) error {
	if a.lease.Job.ID == "" {
		return a.malformed(ctx)
	}
	outcome, err := a.outcome(ctx)
	if err != nil || outcome.State == 0 {
		return err // without either, somebody else's job
	}
	recorded, err := a.record(ctx, outcome)
	if err != nil {
		return err
	}
	if recorded == outcome.State {
		a.ended(ctx, outcome, time.Since(began))
		if a.claim.Attempt > 1 { // the handler has cleared up after this one
			a.discard(ctx, recorded)
		}
	} else {
		a.Log.InfoContext(ctx, "job had ended already", "job", a.lease.Job.ID, "state", recorded)
		a.Metrics.duplicates.Inc()
		outcome.Reason = "another attempt has failed"
	}
	return a.end(ctx, recorded, outcome.Reason)
}

// ended counts and logs an outcome on record.
func (a *attempt) ended(ctx context.Context, outcome jobs.Outcome, took time.Duration) {
	kind := "unknown"
	if a.Handlers[a.lease.Job.Kind] != nil {
		kind = string(a.lease.Job.Kind)
	}
	a.Metrics.ended(kind, outcome, took)
	log := a.Log.With("job", a.lease.Job.ID, "kind", a.lease.Job.Kind, "attempt", a.claim.Attempt, "took", took)
	if outcome.State == jobs.Failed {
		if outcome.Code != "" {
			log = log.With("code", outcome.Code)
		}
		log.InfoContext(ctx, "job failed", "reason", outcome.Reason)
	} else {
		log.InfoContext(ctx, "job "+outcome.State.String(), "pages", outcome.Result.Pages)
	}
}

// outcome claims the job and runs it. It returns no outcome and no error when
// the job is not ours to run and has been acked or handed back already.
func (a *attempt) outcome(ctx context.Context) (jobs.Outcome, error) {
	if err := a.getClaim(ctx); err != nil {
		return jobs.Outcome{}, err
	}
	if a.claim.Attempt > 1 && a.claim.Verdict != jobs.Ended {
		a.Metrics.redeliveries.Inc()
	}
	log := a.Log.With("job", a.lease.Job.ID, "kind", a.lease.Job.Kind, "delivery", a.lease.Delivery)
	switch a.claim.Verdict {
	case jobs.Ended:
		log.InfoContext(ctx, "job had ended already", "state", a.claim.State)
		a.Metrics.duplicates.Inc()
		if a.claim.Attempt > 0 {
			a.discard(ctx, a.claim.State)
		}
		return jobs.Outcome{}, a.end(ctx, a.claim.State, a.claim.Reason)
	case jobs.Busy:
		delay := min(a.claim.Wait, claimHold)
		log.InfoContext(ctx, "job is running elsewhere", "retry_in", delay)
		a.Metrics.duplicates.Inc()
		a.release()
		a.nack(ctx, a.lease, delay)
		return jobs.Outcome{}, nil
	case jobs.CrashLoop:
		return a.crashed(ctx)
	case jobs.Granted:
		log.InfoContext(ctx, "Processing job", "attempt", a.claim.Attempt, "crashes", a.claim.Crashes)
		return a.work(ctx)
	}
	return jobs.Outcome{}, fmt.Errorf("%w: claim of job %s has no verdict", jobs.ErrUnavailable, a.lease.Job.ID)
}

// claimPatience is how long a worker keeps a lease it cannot claim the job of.
const claimPatience = 30 * time.Second

// getClaim asks the status store for the job, patiently: a store that fails
// over should not cost every job in hand a round through the queue.
func (a *attempt) getClaim(ctx context.Context) error {
	policy := again
	policy.For = claimPatience
	policy.Retrying = func(err error, wait time.Duration) {
		a.Log.WarnContext(ctx, "cannot claim job, trying again", "job", a.lease.Job.ID, "retry_in", wait, "err", err)
	}
	return policy.Do(ctx, func() error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		_ = a.owed.pay(call, a.lease.Job.ID) // first: what this worker gave up is no crash of the job
		asked, hold := time.Now(), hold(a.left())
		var err error
		a.claim, err = a.Status.Claim(call, a.lease.Job, hold, a.claim)
		cancel()
		if err == nil {
			a.sure.at(asked, hold)
			return nil
		}
		if ctx.Err() == nil {
			a.readiness.fail(err)
			a.Metrics.statusRetries.Inc()
		}
		return err
	})
}

// discardTime bounds the deleting of what dead attempts have left.
const discardTime = 10 * time.Second

// discard deletes what the attempts at a job have left that has ended, in the given
// state, without success. What cannot be deleted now stays.
func (a *attempt) discard(ctx context.Context, state jobs.State) {
	h, ok := a.Handlers[a.lease.Job.Kind].(Discarder)
	if !ok || state == jobs.Succeeded {
		return
	}
	call, cancel := context.WithTimeout(ctx, discardTime)
	defer cancel()
	if err := h.Discard(call, a.lease.Job); err != nil {
		a.Log.WarnContext(ctx, "cannot delete what earlier attempts have left", "job", a.lease.Job.ID, "err", err)
	}
}

// crashed decides on a job that has killed its workers: if the last of them
// died after it had stored the result, the job has succeeded all the same.
func (a *attempt) crashed(ctx context.Context) (jobs.Outcome, error) {
	errNone := fmt.Errorf("worker crashed %d times", a.claim.Crashes)
	h := a.Handlers[a.lease.Job.Kind]
	if h == nil || a.lease.Invalid != nil {
		return failure(errNone), nil //nolint:nilerr // a failure is an outcome
	}
	return a.handle(ctx, func(ctx context.Context, _ func(jobs.Progress)) (jobs.Result, error) {
		result, found, err := h.Earlier(ctx, a.lease.Job)
		if err == nil && !found {
			err = errNone
		}
		return result, err
	})
}

// work runs the job's handler, unless an earlier attempt has left a result.
func (a *attempt) work(ctx context.Context) (jobs.Outcome, error) {
	job := a.lease.Job
	h := a.Handlers[job.Kind]
	switch {
	case a.lease.Invalid != nil:
		return failure(a.lease.Invalid), nil //nolint:nilerr // a failure is an outcome
	case h == nil:
		return failure(fmt.Errorf("this fleet does not run jobs of kind %q", job.Kind)), nil
	}
	return a.handle(ctx, func(ctx context.Context, report func(jobs.Progress)) (jobs.Result, error) {
		result, found, err := h.Earlier(ctx, job)
		if err != nil || found {
			return result, err
		}
		if h, ok := h.(SlotHandler); ok {
			return h.RunInSlot(ctx, a.slot, job, report)
		}
		return h.Run(ctx, job, report)
	})
}

// handle runs f under the job's limits and translates what comes of it. An
// error means that there is no outcome: the job goes back.
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
	}
	return o
}

// handling is the part of an attempt that is supervised.
type handling func(ctx context.Context, report func(jobs.Progress)) (jobs.Result, error)

// How long a handler may go on after it was told to stop, before it is
// abandoned: one that hangs in the kernel must not hold its slot and its job for
// ever, and a worker that is out of time cannot wait at all.
const (
	abandonAfter        = 30 * time.Second
	abandonDrainedAfter = time.Second / 2
)

// supervise runs f and its reporter. It stops f when the job has run or been
// silent for too long, and abandons one that does not stop. ctx is the
// attempt's and running, its child, the handler's, which stop ends.
func (a *attempt) supervise(ctx, running context.Context, stop context.CancelCauseFunc, f handling) (jobs.Result, error) {
	rep := newReporter(a, stop)
	var reporting sync.WaitGroup
	ended := make(chan struct{})
	reporting.Go(func() { rep.run(ctx, ended) })
	defer reporting.Wait()
	defer close(ended)

	var result jobs.Result
	var err error
	done := make(chan struct{})
	go func() { // joined by the select below, unless abandoned there
		defer close(done)
		defer a.recoverInto(a.lease.Job, &err)
		result, err = f(running, rep.report)
	}()

	timeout := time.NewTimer(a.JobTimeout)
	defer timeout.Stop()
	silence := time.NewTimer(a.StallTimeout)
	defer silence.Stop()
	abandon := time.NewTimer(time.Hour)
	abandon.Stop()
	stopped, drained := running.Done(), ctx.Done()
	for {
		select {
		case <-done:
			return result, err
		case <-timeout.C:
			stop(rep.tooSlow(fmt.Errorf("%w: it did not end within %s", jobs.ErrTimeout, a.JobTimeout)))
		case <-silence.C:
			if left := a.StallTimeout - rep.stalled(); left > 0 {
				silence.Reset(left)
				continue
			}
			stop(rep.tooSlow(fmt.Errorf("%w for %s", jobs.ErrStalled, a.StallTimeout)))
		case <-stopped:
			stopped = nil
			abandon.Reset(abandonAfter)
		case <-drained: // also when it is being stopped for another reason
			drained = nil
			if errors.Is(context.Cause(ctx), jobs.ErrDrained) {
				stopped = nil
				abandon.Reset(abandonDrainedAfter)
			}
		case <-abandon.C:
			a.running = done
			a.over.Store(true) // before the job is handed back: f may go on beside its next attempt
			a.Log.ErrorContext(ctx, "handler does not stop and is abandoned", "job", a.lease.Job.ID, "cause", context.Cause(running))
			return jobs.Result{}, context.Cause(running)
		}
	}
}

// recoverInto turns a panic of a handler into the job's failure.
func (w *Worker) recoverInto(job jobs.Job, err *error) {
	if p := recover(); p != nil {
		w.Log.Error("handler panicked", "job", job.ID, "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("internal error: %v", p)
	}
}

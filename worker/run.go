package worker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/trace"
)

// attempt is one lease on its way through the worker.
type attempt struct {
	*Worker
	lease     jobs.Lease
	handler   Handler // of the job's kind; nil if there is none
	slot      jobs.Slot
	heldLease *heldLease
	claim     jobs.Claim
	confirmed confirmation
	lose      context.CancelCauseFunc // ends all work under the lease: it is lost
	closed    atomic.Bool             // nothing may become visible any more
	running   <-chan struct{}         // of a handler that was abandoned: closed when it has returned

	// What a job that has succeeded has reported last, if its outcome is to bring it.
	progress *jobs.Progress
	lines    jobs.Lines

	steps stepSpans
}

// left returns how long the lease still holds.
func (a *attempt) left() time.Duration { return a.held.left(a.heldLease) }

// release ends the extending of the lease. It comes before an ack or nack:
// an extension that overtakes a nack would delay the job by a whole lease.
func (a *attempt) release() { a.held.release(a.heldLease) }

// run takes one lease to its end: claim, handler, settle. It returns nil, or, if
// the handler, which may be nil, was abandoned, a channel that is closed when it has returned.
func (w *Worker) run(work context.Context, lease jobs.Lease, h Handler, slot jobs.Slot) (running <-chan struct{}) {
	began := time.Now()
	w.Metrics.leased(lease)
	// ctx ends when the lease is lost or the worker has no more time; what ends
	// only the handler (a cancel, a timeout) has an outcome to record under it.
	work, span := leaseSpan(work, &lease)
	defer span.End()
	ctx, lose := context.WithCancelCause(work)
	defer lose(nil)
	claim := jobs.Claim{Queue: lease.Raw.Queue, Ack: lease.Raw.Ack}
	a := &attempt{Worker: w, lease: lease, handler: h, slot: slot, heldLease: w.held.add(lease, lose), claim: claim, lose: lose} //nolint:contextcheck // a lost lease is logged with the trace of its job
	defer a.release()
	defer a.closed.Store(true)

	if err := a.process(jobs.WithHold(ctx, a.stillHeld), began); err != nil {
		span.Fail(err.Error())
		a.handBack(ctx, err)
	}
	return a.running
}

// process takes the attempt from its claim to its ack. On an error the lease is still
// held.
func (a *attempt) process(ctx context.Context, began time.Time) error {
	if a.lease.Job.ID == "" {
		return a.malformed(ctx)
	}
	outcome, err := a.outcome(ctx)
	if err != nil || outcome.State == 0 {
		return err // without either, another worker's job
	}
	ctx, span := trace.Start(ctx, "settle", trace.Internal)
	err = a.settle(ctx, outcome, began)
	span.EndWith(err)
	return err
}

// settle records an outcome and ends the lease. On an error it is still held.
func (a *attempt) settle(ctx context.Context, outcome jobs.Outcome, began time.Time) error {
	recorded, err := a.record(ctx, outcome)
	if err != nil {
		return err
	}
	if recorded == jobs.Queued {
		a.retryLater(ctx, outcome)
		return nil
	}
	if outcome.Retry && recorded == jobs.Canceled { // somebody has asked for it meanwhile
		a.discard(ctx, recorded)
		outcome = jobs.Outcome{State: recorded}
	}
	if recorded == outcome.State {
		a.logOutcome(ctx, outcome, time.Since(began))
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

// logOutcome counts and logs an outcome on record.
func (a *attempt) logOutcome(ctx context.Context, outcome jobs.Outcome, took time.Duration) {
	kind := "unknown"
	if a.handler != nil {
		kind = string(a.lease.Job.Kind)
	}
	a.Metrics.ended(kind, outcome, took)
	about := []any{"job", a.lease.Job.ID, "kind", a.lease.Job.Kind, "attempt", a.claim.Attempt, "took", took}
	if outcome.State == jobs.Failed {
		if outcome.Code != "" {
			about = append(about, "code", outcome.Code)
		}
		a.Log.InfoContext(ctx, "job failed", append(about, "reason", outcome.Reason)...)
	} else {
		a.Log.InfoContext(ctx, "job "+outcome.State.String(), append(about, "pages", outcome.Result.Pages)...)
	}
}

// outcome claims the job and runs it. It returns no outcome and no error when
// the job was not granted and has been acked or handed back already.
func (a *attempt) outcome(ctx context.Context) (jobs.Outcome, error) {
	if err := a.getClaim(ctx); err != nil {
		return jobs.Outcome{}, err
	}
	if a.claim.Attempt > 1 && a.claim.Verdict != jobs.Ended {
		a.Metrics.redeliveries.Inc()
	}
	// Not a logger with these: to make one costs as much as a line, also where the level leaves it out.
	about := []any{"job", a.lease.Job.ID, "kind", a.lease.Job.Kind, "delivery", a.lease.Delivery}
	switch a.claim.Verdict {
	case jobs.Ended:
		a.Log.InfoContext(ctx, "job had ended already", append(about, "state", a.claim.State)...)
		a.Metrics.duplicates.Inc()
		if a.claim.Attempt > 0 {
			a.discard(ctx, a.claim.State)
		}
		return jobs.Outcome{}, a.end(ctx, a.claim.State, a.claim.Reason)
	case jobs.Busy:
		delay := min(a.claim.Wait, jobs.ClaimHold)
		a.Log.InfoContext(ctx, "job is running elsewhere", append(about, "retry_in", delay)...)
		a.Metrics.duplicates.Inc()
		a.release()
		a.nack(ctx, a.lease, delay)
		return jobs.Outcome{}, nil
	case jobs.Waiting:
		a.Log.InfoContext(ctx, "job waits for its next attempt", append(about, "retry_in", a.claim.Wait)...)
		a.Metrics.handedBack.WithLabelValues("waiting").Inc()
		a.release()
		a.nack(ctx, a.lease, a.claim.Wait)
		return jobs.Outcome{}, nil
	case jobs.CrashLoop:
		return a.crashed(ctx)
	case jobs.Granted:
		a.Log.InfoContext(ctx, "Processing job", append(about, "attempt", a.claim.Attempt, "crashes", a.claim.Crashes)...)
		ctx, span, job := a.startAttempt(ctx, a.lease.Job)
		outcome, err := a.work(ctx, job)
		endAttempt(span, outcome, err)
		return outcome, err
	}
	return jobs.Outcome{}, fmt.Errorf("%w: claim of job %s has no verdict", jobs.ErrUnavailable, a.lease.Job.ID)
}

// crashed decides on a job whose workers have crashed too often: if the last of them
// had stored the result, the job has succeeded all the same.
func (a *attempt) crashed(ctx context.Context) (jobs.Outcome, error) {
	errNone := fmt.Errorf("worker crashed %s", jobs.Count(a.claim.Crashes, "time"))
	h := a.handler
	if h == nil || a.lease.Invalid != nil {
		return failure(errNone), nil //nolint:nilerr // a failure is an outcome
	}
	return a.handle(ctx, func(ctx context.Context, _ *reporter) (jobs.Result, error) {
		result, found, err := h.Earlier(ctx, a.lease.Job)
		if err == nil && !found {
			err = errNone
		}
		return result, err
	})
}

// work runs the job's handler, unless an earlier attempt has left a result.
func (a *attempt) work(ctx context.Context, job jobs.Job) (jobs.Outcome, error) {
	h := a.handler
	switch {
	case a.lease.Invalid != nil:
		return failure(a.lease.Invalid), nil //nolint:nilerr // a failure is an outcome
	case h == nil:
		return failure(noWorker(job.Kind)), nil
	}
	return a.handle(ctx, func(ctx context.Context, rep *reporter) (jobs.Result, error) {
		result, found, err := h.Earlier(ctx, job)
		if err != nil || found {
			return result, err
		}
		if h, ok := h.(AttemptHandler); ok {
			return h.RunAttempt(ctx, jobs.Attempt{
				Job: job, Slot: a.slot, Number: a.claim.Attempt, Failures: a.claim.Failures, Deadline: rep.began.Add(a.timeLimit()),
				Report: rep.add, Log: rep.log,
			})
		}
		return h.Run(ctx, job, rep.add)
	})
}

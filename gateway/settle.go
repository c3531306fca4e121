package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// failJob is the code of failures that come without one.
const failJob = "JOB_FAILED"

// Finish implements worker.Status. The outcome is delivered or on disk when it returns nil, and
// [Agent.Run] delivers it; that of a short job may be in memory alone while the disk takes nothing.
// Finish waits for the first attempt until ctx ends. The error wraps [jobs.ErrLeaseLost] when that
// attempt has shown that the outcome is too late.
func (a *Agent) Finish(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	h := a.find(c.Token)
	if h == nil {
		return 0, fmt.Errorf("finish job %s: %w: this worker does not hold it any more", c.Job, jobs.ErrLeaseLost)
	}
	if o.State == jobs.Failed {
		a.log(h, fmt.Sprintf("attempt %d failed: %s", h.attempt, o.Reason))
	}
	err := a.settle(ctx, h, func(e *entry) {
		switch o.State {
		case jobs.Succeeded:
			e.State, e.Object, e.Text = stepResult, o.Result.Object, o.Result.Text
		case jobs.Canceled:
			e.State, e.Failed = stepFailed, failedRequest(e.LeaseID, wire.FailCanceled, "the job was canceled", "", false)
		default:
			e.State, e.Failed = stepFailed, failedRequest(e.LeaseID, o.Code, o.Reason, o.Detail, !o.Final)
			if o.Retry && e.Kind != "" {
				after := min(o.RetryAfter.Seconds(), wire.MaxRetryAfter)
				e.Failed.RetryAfterSeconds = &after
			}
		}
	})
	if err != nil {
		return 0, fmt.Errorf("finish job %s: %w", c.Job, err)
	}
	return o.State, nil
}

var notCode = regexp.MustCompile(`[^A-Z0-9_]+`)

// Retry implements worker.Status. The gateway decides whether the job runs again; it is told of
// the failure as of any other, and, unless the job is of kind zpe, after which time.
func (a *Agent) Retry(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	if _, err := a.Finish(ctx, c, o); err != nil {
		return 0, err
	}
	return jobs.Queued, nil
}

// failedRequest returns the report of a failure, cut to the limits of the protocol.
func failedRequest(lease, code, message, traceback string, retryable bool) *wire.FailedRequest {
	code = jobs.Clip(strings.Trim(notCode.ReplaceAllString(strings.ToUpper(code), "_"), "_"), wire.MaxErrorCode, "")
	code = cmp.Or(code, failJob)
	return &wire.FailedRequest{
		LeaseID: lease, ErrorCode: code, ErrorMessage: cmp.Or(jobs.Clip(message, wire.MaxErrorMessage, ""), code),
		Traceback: tail(traceback, wire.MaxTraceback), Retryable: &retryable,
	}
}

// Nack implements worker.Source: the attempt has failed and the job is not at fault.
// Without a delay the reason is that the worker is stopping.
func (a *Agent) Nack(ctx context.Context, lease jobs.Lease, delay time.Duration) error {
	h := a.find(lease.ID)
	if h == nil {
		return nil
	}
	a.mu.Lock()
	lost, reason := h.lost, h.releaseReason
	a.mu.Unlock()
	if lost {
		return a.endUnreported(ctx, h)
	}
	code, fallback := wire.FailWorkerUnavailable, "the worker cannot run the job now"
	if delay == 0 {
		code, fallback = wire.FailWorkerShutdown, "the worker is stopping"
	}
	reason = cmp.Or(reason, fallback)
	a.log(h, fmt.Sprintf("attempt %d ended: %s", h.attempt, reason))
	err := a.settle(ctx, h, func(e *entry) {
		e.State, e.Failed = stepFailed, failedRequest(e.LeaseID, code, reason, "", true)
	})
	if errors.Is(err, jobs.ErrLeaseLost) {
		return nil
	}
	if err != nil {
		return errors.Join(fmt.Errorf("hand back job %s: %w", h.JobID, err), a.handBackUnrecorded(ctx, h, code, reason))
	}
	return nil
}

// handBackUnrecorded hands a lease back although that cannot be written to disk. After a
// restart the entry would still be that of a running job and be reported as
// WORKER_RESTART, which a control plane ignores then.
func (a *Agent) handBackUnrecorded(ctx context.Context, h *heldLease, code, why string) error {
	if err := a.failNow(ctx, a.entryOf(h), code, why); err != nil {
		return err
	}
	a.endLease(ctx, h, false)
	return nil
}

// failNow reports a failure once, also after ctx has ended.
func (a *Agent) failNow(ctx context.Context, e entry, code, why string) error {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalCallTimeout)
	defer cancel()
	request := failedRequest(e.LeaseID, code, why, "", true)
	request.Kind = string(e.Kind)
	_, err := a.Gateway.Failed(call, string(e.JobID), *request)
	return err
}

// Ack implements worker.Source. The report has ended the lease already.
func (a *Agent) Ack(context.Context, jobs.Lease) error {
	a.jobChanged()
	return nil
}

// Release implements worker.Status. message is why the lease is handed back, which
// [Agent.Nack] does next; it is empty when the lease is lost.
func (a *Agent) Release(ctx context.Context, c jobs.Claim, message string) error {
	h := a.find(c.Token)
	if h == nil {
		return nil
	}
	if message != "" {
		a.mu.Lock()
		h.releaseReason = message
		a.mu.Unlock()
		return nil
	}
	return a.endUnreported(ctx, h)
}

// settle records the end of a lease, and has [Agent.Run] deliver it. It returns after the first
// attempt, or when ctx ends. If there is no decision then, the end is on disk, if that takes any.
func (a *Agent) settle(ctx context.Context, h *heldLease, end func(*entry)) error {
	if err := a.recordEnd(h, end); err != nil {
		return fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
	}
	err := h.delivery.Wait(ctx)
	if err == nil {
		a.keepEnd(ctx, h)
	}
	return err
}

// short is the time of a job whose end is written to disk only if the first attempt to deliver it brings no
// decision: what it costs to run such a job again, after a crash in between, is not worth the wait for a disk.
const short = time.Second

// recordEnd writes the end of a lease to disk, unless the job was short, and has it delivered. It does nothing
// if the lease has ended before.
func (a *Agent) recordEnd(h *heldLease, end func(*entry)) error {
	h.io.Lock()
	defer h.io.Unlock()
	e := a.entryOf(h)
	if e.State != stepRunning {
		return nil
	}
	end(&e)
	e.EndedAt = time.Now().UTC()
	if e.Kind != "" && e.EndedAt.Sub(e.LeasedAt) < short {
		a.replace(h, e)
		h.unwritten = true
	} else if err := a.update(h, e); err != nil {
		return err
	}
	a.deliver(h)
	return nil
}

// writeEnd writes the end of a lease to disk, if it is not there and has not been decided on.
func (a *Agent) writeEnd(h *heldLease) error {
	h.io.Lock()
	defer h.io.Unlock()
	if !h.unwritten {
		return nil
	}
	// In memory it stays as it is: the delivery under way reads it without a lock.
	err := a.putEntry(a.entryOf(h))
	h.unwritten = err != nil
	return err
}

// keepEnd is writeEnd of what is being delivered. An error does not matter to the delivery, which the job's slot
// cannot take back: the end is written after the next attempt.
func (a *Agent) keepEnd(ctx context.Context, h *heldLease) {
	if err := a.writeEnd(h); err != nil {
		a.Log.WarnContext(ctx, "cannot write state directory, the job runs again if this process ends before it is delivered", "job", h.JobID, "err", err)
	}
}

// update replaces h's entry by e, on disk first. h.io is held.
func (a *Agent) update(h *heldLease, e entry) error {
	if err := a.putEntry(e); err != nil {
		return err
	}
	h.unwritten = false
	a.replace(h, e)
	return nil
}

// replace replaces h's entry by e, but not on disk.
func (a *Agent) replace(h *heldLease, e entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Only these fields change: the ids of the job and the lease are read without a lock.
	h.State, h.EndedAt, h.Object, h.Text, h.Failed = e.State, e.EndedAt, e.Object, e.Text, e.Failed
	if h.stopListening != nil {
		h.stopListening()
	}
}

func (a *Agent) entryOf(h *heldLease) entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return h.entry
}

// endUnreported ends a lease that needs no report. The handler's files are kept for a
// while: the job may come back.
func (a *Agent) endUnreported(ctx context.Context, h *heldLease) error {
	h.io.Lock()
	defer h.io.Unlock()
	e := a.entryOf(h)
	if e.State != stepRunning {
		return nil // it is being delivered
	}
	return a.retain(ctx, e)
}

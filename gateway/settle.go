package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// failJob is the code of failures that come without one.
const failJob = "JOB_FAILED"

// Finish implements worker.Status. The outcome is on disk when it returns nil;
// it is delivered by [Agent.Run], and Finish waits for a first try of that until
// ctx ends. The error wraps [jobs.ErrLeaseLost] when that try has shown that the
// outcome comes too late.
func (a *Agent) Finish(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	h := a.hand(c.Token)
	if h == nil {
		return 0, fmt.Errorf("finish job %s: %w: this worker has given it up", c.Job, jobs.ErrLeaseLost)
	}
	err := a.settle(ctx, h, func(e *entry) {
		switch o.State {
		case jobs.Succeeded:
			e.State, e.Object = stepResult, o.Result.Object
		case jobs.Canceled:
			e.State, e.Failed = stepFailed, failedAsk(e.LeaseID, FailCanceled, "the job was canceled", "", false)
		default:
			e.State, e.Failed = stepFailed, failedAsk(e.LeaseID, o.Code, o.Reason, o.Detail, !o.Final)
		}
	})
	if err != nil {
		return 0, fmt.Errorf("finish job %s: %w", c.Job, err)
	}
	return o.State, nil
}

var notCode = regexp.MustCompile(`[^A-Z0-9_]+`)

// failedAsk returns the report of a failure within the limits of the protocol,
// so that it is not refused for its form.
func failedAsk(lease, code, message, traceback string, retryable bool) *FailedAsk {
	code = Clip(strings.Trim(notCode.ReplaceAllString(strings.ToUpper(code), "_"), "_"), MaxErrorCode)
	code = cmp.Or(code, failJob)
	return &FailedAsk{
		LeaseID: lease, ErrorCode: code, ErrorMessage: cmp.Or(Clip(message, MaxErrorMessage), code),
		Traceback: tail(traceback, MaxTraceback), Retryable: &retryable,
	}
}

// Nack implements worker.Source: the run has failed through no fault of the
// job's. One that is handed back at once is so because the worker is stopping.
func (a *Agent) Nack(ctx context.Context, lease jobs.Lease, delay time.Duration) error {
	h := a.hand(lease.ID)
	if h == nil {
		return nil
	}
	a.mu.Lock()
	lost, note := h.lost, h.note
	a.mu.Unlock()
	if lost {
		return a.leave(ctx, h)
	}
	code, otherwise := FailWorkerUnavailable, "the worker cannot run the job now"
	if delay == 0 {
		code, otherwise = FailWorkerShutdown, "the worker is stopping"
	}
	err := a.settle(ctx, h, func(e *entry) {
		e.State, e.Failed = stepFailed, failedAsk(e.LeaseID, code, cmp.Or(note, otherwise), "", true)
	})
	if errors.Is(err, jobs.ErrLeaseLost) {
		return nil
	}
	if err != nil {
		return errors.Join(fmt.Errorf("hand back job %s: %w", h.JobID, err), a.handBackUnkept(ctx, h, code, cmp.Or(note, otherwise)))
	}
	return nil
}

// handBackUnkept tells the control plane of a lease that is handed back although
// that cannot be kept on disk: after a restart it would be told of this lease
// that the worker was restarted, which changes nothing any more.
func (a *Agent) handBackUnkept(ctx context.Context, h *hand, code, why string) error {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer cancel()
	if _, err := a.Gateway.Failed(call, string(h.JobID), *failedAsk(h.LeaseID, code, why, "", true)); err != nil {
		return err
	}
	a.finished(ctx, h, false)
	return nil
}

// Ack implements worker.Source. The control plane has been told already.
func (a *Agent) Ack(context.Context, jobs.Lease) error {
	a.pace.job()
	return nil
}

// Release implements worker.Status. A lease that is not lost is handed back with
// [Agent.Nack], which comes next; message says why, and is empty when it is lost.
func (a *Agent) Release(ctx context.Context, c jobs.Claim, message string) error {
	h := a.hand(c.Token)
	if h == nil {
		return nil
	}
	if message != "" {
		a.mu.Lock()
		h.note = message
		a.mu.Unlock()
		return nil
	}
	return a.leave(ctx, h)
}

// settle says how a lease has ended, once: on disk first, then to [Agent.Run].
// It returns after the first try to deliver it, and when ctx ends.
func (a *Agent) settle(ctx context.Context, h *hand, end func(*entry)) error {
	if err := a.end(h, end); err != nil {
		return fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
	}
	select {
	case <-h.tried:
		return h.fate
	case <-ctx.Done():
	case <-a.ended:
	}
	return nil
}

// end puts on disk how a lease has ended, unless it has already, and has it
// delivered.
func (a *Agent) end(h *hand, end func(*entry)) error {
	h.io.Lock()
	defer h.io.Unlock()
	e := a.entryOf(h)
	if e.State != stepRunning {
		return nil
	}
	end(&e)
	e.EndedAt = time.Now().UTC()
	if err := a.change(h, e); err != nil {
		return err
	}
	a.mu.Lock()
	a.todo = append(a.todo, h)
	a.mu.Unlock()
	a.nudge()
	return nil
}

// change puts e on disk and then in the place of h's entry. h.io is held.
func (a *Agent) change(h *hand, e entry) error {
	if err := a.outbox.put(e); err != nil {
		return err
	}
	a.mu.Lock()
	// Only what changes: the names of the job and the lease are read without a lock.
	h.State, h.EndedAt, h.Object, h.Failed = e.State, e.EndedAt, e.Object, e.Failed
	if h.hush != nil {
		h.hush()
	}
	a.mu.Unlock()
	return nil
}

func (a *Agent) entryOf(h *hand) entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return h.entry
}

// leave ends a lease about which there is nothing to say (any more). What the
// handler has of the job is kept for a while: the job may come back.
func (a *Agent) leave(ctx context.Context, h *hand) error {
	h.io.Lock()
	defer h.io.Unlock()
	e := a.entryOf(h)
	if e.State != stepRunning {
		return nil // it is being delivered
	}
	return a.keepLeft(ctx, e)
}

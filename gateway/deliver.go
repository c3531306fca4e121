package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/outbox"
	"github.com/batchfleet/batchfleet/retry"
)

// resultOverhead bounds what a report holds next to the result: field names and the lease id.
const resultOverhead = 4 << 10

// The codes of results that cannot be delivered.
const (
	failResultInvalid  = "RESULT_INVALID"
	failResultRejected = "RESULT_REJECTED"
)

// retryLater marks err as the reason to repeat a delivery, after the Retry-After of a
// gateway's response if there is one.
func retryLater(err error) error {
	r := &outbox.RetryError{Err: err}
	if e := (*Error)(nil); errors.As(err, &e) {
		r.After = e.RetryAfter
	}
	return r
}

// deliver has [Agent.Run] report the end of a lease, which is on disk or short, until the control
// plane has decided on it. The lease of a result is extended meanwhile, also while the
// result waits for its turn. h.io is held, or no other goroutine has h.
func (a *Agent) deliver(h *heldLease) {
	a.mu.Lock()
	due := time.Until(h.extendedAt.Add(h.ttl() / 3))
	a.mu.Unlock()
	h.delivery = a.outbox.Deliver(outbox.Item{
		Try: func(ctx context.Context) error {
			err := a.deliverOnce(ctx, h)
			if again := (*outbox.RetryError)(nil); errors.As(err, &again) {
				a.keepEnd(ctx, h)
			}
			return err
		},
		Beside: func(ctx context.Context) { a.extendResult(ctx, h) }, After: due,
		Attrs: []slog.Attr{slog.Any("job", h.JobID)},
	})
}

// deliveries is when calls are repeated that the control plane has not decided on.
var deliveries = retry.Policy{First: time.Second, Max: 90 * time.Second}

func (a *Agent) step(h *heldLease) step { return a.entryOf(h).State }

// extendResult extends the lease of an undelivered result until ctx ends: the job must
// not run again because of a slow upload or an unreachable gateway. Heartbeats follow the
// lease's own schedule, a third of its TTL, and after an error a part of it: these
// intervals are the protocol's, not those of package retry.
func (a *Agent) extendResult(ctx context.Context, h *heldLease) {
	every := h.ttl() / 3
	for {
		a.mu.Lock()
		lost, state, next := h.lost, h.State, time.Until(h.extendedAt.Add(every))
		a.mu.Unlock()
		if lost || state != stepResult || jobs.Sleep(ctx, next) != nil {
			return
		}
		call, cancel := context.WithTimeout(ctx, max(h.ttl()/60, time.Second/4))
		err := a.heartbeat(call, h)
		cancel()
		if err != nil && jobs.Sleep(ctx, max(h.ttl()/120, time.Second)) != nil {
			return
		}
	}
}

// deliverOnce makes one attempt. It returns nil when there is a decision, an
// [*outbox.RetryError] when there is none yet, and an error that wraps
// jobs.ErrLeaseLost when the outcome came too late.
func (a *Agent) deliverOnce(ctx context.Context, h *heldLease) error {
	if a.step(h) == stepResult {
		err := a.deliverSized(ctx, h)
		if err != nil || a.step(h) == stepResult {
			return err
		}
	}
	return a.deliverFailure(ctx, h)
}

// deliverSized posts a result. Only a few are on their way at once, except small ones where the control plane
// takes batches: these share requests.
func (a *Agent) deliverSized(ctx context.Context, h *heldLease) error {
	plane, ok := a.Gateway.(BatchPlane)
	batches := ok && plane.Batches()
	if !batches || !a.fewLines(h) {
		a.sendLines(ctx, h)
	}
	if batches {
		if text, err := a.readResult(ctx, h, MaxInline); err == nil && len(text) <= MaxInline {
			return a.deliverResult(ctx, h, text)
		}
	}
	return a.outbox.Upload(ctx, func() error { return a.deliverResult(ctx, h, nil) })
}

// deliverResult posts a result, which it reads if there is no text of it. One that can never be
// delivered is replaced by a failure, which the caller delivers.
func (a *Agent) deliverResult(ctx context.Context, h *heldLease, text []byte) error {
	if age := time.Since(h.EndedAt); age > keepFor {
		return a.giveUp(ctx, h, fmt.Sprintf("it could not be delivered for %s", age.Round(time.Hour)))
	}
	request, code, err := a.result(ctx, h, text)
	switch {
	case code != "":
		a.Log.ErrorContext(ctx, "cannot deliver a result, reporting its job as failed", "job", h.JobID, "object", h.Object, "err", err)
		return a.failInstead(h, failedRequest(h.LeaseID, code, err.Error(), "", code == wire.FailResultMissing))
	case err != nil:
		return retryLater(err)
	}
	request.LeaseID, request.Kind = h.LeaseID, string(h.Kind)
	if len(request.Artifacts) > 0 { // which may take long to send
		if err := a.writeEnd(h); err != nil {
			return retryLater(err)
		}
	}
	code, err = a.uploadArtifacts(ctx, h, request.Artifacts)
	if code != "" {
		a.Log.ErrorContext(ctx, "cannot deliver an artifact, reporting its job as failed", "job", h.JobID, "err", err)
		return a.failInstead(h, failedRequest(h.LeaseID, code, err.Error(), "", code == wire.FailResultMissing))
	}
	var response wire.ReportResponse
	if err == nil {
		request.Log = a.takeLines(h)
		response, err = a.Gateway.Result(ctx, string(h.JobID), request)
		a.linesSettled(h, request.Log, err == nil)
	}
	e := (*Error)(nil)
	switch {
	case err == nil:
		a.Log.DebugContext(ctx, "result delivered", "job", h.JobID, "idempotent", response.Idempotent)
		a.mu.Lock()
		h.clean = h.clean && h.Text != "" && len(request.Artifacts) == 0
		a.mu.Unlock()
		a.endLease(ctx, h, true)
		return nil
	case !errors.As(err, &e) || !e.decided() || e.unauthorized() || e.again():
		// The result is still good without a valid token: an operator may install one.
		return retryLater(err)
	case e.Status == http.StatusRequestEntityTooLarge:
		// It may be the limit of a proxy on the way, which its owner can lift.
		path, kept := a.keepAside(rejectedDir, h.entry, request, err.Error())
		if kept != nil {
			return kept
		}
		a.Log.ErrorContext(ctx, "the gateway or a proxy refuses a result because of its size; it is kept aside and its job reported as failed",
			"job", h.JobID, "file", path, "err", err)
		return a.failInstead(h, failedRequest(h.LeaseID, wire.FailResultTooLarge, "the gateway takes no result as large as this one", "", false))
	case e.Code == wire.AlreadyFinished:
		a.Log.WarnContext(ctx, "job has finished with another result, dropping this one", "job", h.JobID, "err", err)
		a.endLease(ctx, h, true)
		return nil
	case e.Status == http.StatusConflict:
		return a.keepLate(ctx, h, request, err)
	}
	return a.keepRejected(ctx, h, request, e)
}

// result returns a result for the control plane, which it reads if there is no text of it. A code is
// that of the failure to report instead: another attempt would not help.
func (a *Agent) result(ctx context.Context, h *heldLease, text []byte) (request wire.ResultRequest, code string, err error) {
	const limit = wire.MaxResultBody - resultOverhead
	if text == nil {
		text, err = a.readResult(ctx, h, limit)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid):
		return wire.ResultRequest{}, wire.FailResultMissing, fmt.Errorf("the result is not in the worker's store any more: %w", err)
	case err != nil:
		return wire.ResultRequest{}, "", err
	case len(text) > limit:
		return wire.ResultRequest{}, wire.FailResultTooLarge, fmt.Errorf("the result is larger than %d bytes", limit)
	}
	if h.Kind == "" {
		request, err = a.Encode(text)
	} else {
		request, err = a.EncodeKind(h.Kind, text)
	}
	if err != nil {
		return wire.ResultRequest{}, failResultInvalid, fmt.Errorf("the result is not one of this protocol: %w", err)
	}
	return request, "", nil
}

// readResult returns at most limit+1 bytes of a result.
func (a *Agent) readResult(ctx context.Context, h *heldLease, limit int64) ([]byte, error) {
	if text := a.entryOf(h).Text; text != "" {
		return []byte(text), nil
	}
	r, err := a.Store.Open(ctx, h.Object)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	_ = r.Close() // it was only read
	return text, err
}

// failInstead replaces a result by a failure, on disk first: the control plane must
// never get both.
func (a *Agent) failInstead(h *heldLease, failed *wire.FailedRequest) error {
	h.io.Lock()
	defer h.io.Unlock()
	e := a.entryOf(h)
	e.State, e.Failed = stepFailed, failed
	if err := a.update(h, e); err != nil {
		return retryLater(err)
	}
	return nil
}

// keepLate keeps a result aside whose lease was lost.
func (a *Agent) keepLate(ctx context.Context, h *heldLease, request wire.ResultRequest, cause error) error {
	path, err := a.keepAside(lateDir, h.entry, request, cause.Error())
	if err != nil {
		return err
	}
	a.Log.WarnContext(ctx, "the result came after its lease was lost; the gateway may keep it for 24 h for an operator to accept, this worker keeps it for 7 days",
		"job", h.JobID, "file", path, "err", cause)
	a.endLease(ctx, h, false)
	return fmt.Errorf("%w: %w", jobs.ErrLeaseLost, cause)
}

// keepRejected keeps a result aside that the control plane refuses, and fails the job:
// another attempt would have the same result.
func (a *Agent) keepRejected(ctx context.Context, h *heldLease, request wire.ResultRequest, e *Error) error {
	path, err := a.keepAside(rejectedDir, h.entry, request, e.Error())
	if err != nil {
		return err
	}
	a.Log.ErrorContext(ctx, "the gateway refuses a result, which is kept aside", "job", h.JobID, "file", path, "err", e)
	if e.Status == http.StatusNotFound || e.Status == http.StatusForbidden {
		a.endLease(ctx, h, false) // the gateway does not know the job, or takes nothing from this worker
		return nil
	}
	return a.failInstead(h, failedRequest(h.LeaseID, failResultRejected, "the gateway does not take the result: "+e.Message, "", false))
}

// giveUp keeps a result aside that could not be delivered for keepFor.
func (a *Agent) giveUp(ctx context.Context, h *heldLease, why string) error {
	request, code, err := a.result(ctx, h, nil)
	switch {
	case code != "": // no result to keep
		a.Log.ErrorContext(ctx, "a result is given up and lost", "job", h.JobID, "why", why, "err", err)
	case err != nil:
		return retryLater(err)
	default:
		path, err := a.keepAside(rejectedDir, h.entry, request, why)
		if err != nil {
			return err
		}
		a.Log.ErrorContext(ctx, "a result is given up and kept aside", "job", h.JobID, "file", path, "why", why)
	}
	a.endLease(ctx, h, false)
	return nil
}

// deliverFailure posts a failure.
func (a *Agent) deliverFailure(ctx context.Context, h *heldLease) error {
	if age := time.Since(h.EndedAt); age > keepFor {
		a.Log.ErrorContext(ctx, "giving up the report of a failure", "job", h.JobID, "code", h.Failed.ErrorCode, "age", age.Round(time.Hour))
		a.endLease(ctx, h, false)
		return nil
	}
	a.sendLines(ctx, h)
	request := *h.Failed
	request.Kind = string(h.Kind)
	response, err := a.Gateway.Failed(ctx, string(h.JobID), request)
	e := (*Error)(nil)
	switch {
	case err == nil:
		a.Log.InfoContext(ctx, "failure delivered", "job", h.JobID, "code", h.Failed.ErrorCode, "runs_again", response.Requeued, "retries", response.RetryCount)
		a.endLease(ctx, h, !response.Requeued)
		return nil
	case !errors.As(err, &e) || !e.decided() || e.unauthorized():
		return retryLater(err)
	}
	a.Log.WarnContext(ctx, "the gateway refuses the report of a failure, dropping it", "job", h.JobID, "code", h.Failed.ErrorCode, "err", err)
	a.endLease(ctx, h, false)
	if e.Code == wire.LeaseLost {
		return err
	}
	return nil
}

// endLease ends a lease that needs no more reports. The handler's files are deleted if
// the job is over, and kept for a while if it may come back.
func (a *Agent) endLease(ctx context.Context, h *heldLease, over bool) {
	h.io.Lock()
	h.unwritten = false // and is not written any more
	h.io.Unlock()
	e := a.entryOf(h)
	if over {
		a.outbox.Remove(e.file())
		a.mu.Lock()
		a.drop(e.LeaseID)
		clean := h.clean && e.State == stepResult
		a.mu.Unlock()
		if !clean {
			a.forget(ctx, e.JobID)
		}
	} else if err := a.retain(ctx, e); err != nil {
		a.Log.WarnContext(ctx, "cannot write state directory, this outcome is delivered again after a restart", "job", e.JobID, "err", err)
	}
}

package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/batchfleet/batchfleet/jobs"
)

// What a result may be beside the texts in it: the field names and the lease id.
const resultOverhead = 4 << 10

// The codes of results that cannot be delivered.
const (
	failResultMissing  = "RESULT_MISSING"
	failResultInvalid  = "RESULT_INVALID"
	failResultRejected = "RESULT_REJECTED"
)

// errNotYet says that a delivery is to be tried again.
var errNotYet = errors.New("not yet")

// deliver tells the control plane how a lease has ended, until it has decided on
// that, or ctx ends and a try was made. Tries end with work. results bounds how
// many results are on their way at once; the lease of one that waits for its turn
// is kept alive, too.
func (a *Agent) deliver(ctx, work context.Context, h *hand, results chan struct{}) {
	defer a.keepAlive(work, h)()
	wait := deliveryBackoff()
	tried := false
	for {
		err := a.deliverOnce(work, h, results)
		if !tried {
			if !errors.Is(err, errNotYet) {
				h.fate = err
			}
			close(h.tried)
			tried = true
		}
		if !errors.Is(err, errNotYet) {
			return
		}
		delay := wait.NextBackOff()
		if e := (*Error)(nil); errors.As(err, &e) {
			delay = max(delay, e.RetryAfter)
		}
		if ctx.Err() != nil {
			return
		}
		a.Log.WarnContext(ctx, "cannot deliver what a job has ended with, trying again", "job", h.JobID, "what", a.step(h), "retry_in", delay, "err", err)
		if jobs.Sleep(ctx, delay) != nil {
			return
		}
	}
}

// deliveryBackoff grows from one second to a minute and a half, with jitter.
func deliveryBackoff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = time.Second
	b.MaxInterval = time.Minute
	b.Multiplier = 2
	b.Reset()
	return b
}

func (a *Agent) step(h *hand) step { return a.entryOf(h).State }

// keepAlive extends the lease of a result that is not delivered yet, until stop
// is called or ctx ends: a slow upload or a gateway that was away must not cost
// the job.
func (a *Agent) keepAlive(ctx context.Context, h *hand) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.extendResult(ctx, h)
	}()
	return func() { cancel(); <-done }
}

func (a *Agent) extendResult(ctx context.Context, h *hand) {
	every := h.ttl() / 3
	for {
		a.mu.Lock()
		lost, is, next := h.lost, h.State, time.Until(h.beatAt.Add(every))
		a.mu.Unlock()
		if lost || is != stepResult || jobs.Sleep(ctx, next) != nil {
			return
		}
		call, cancel := context.WithTimeout(ctx, max(h.ttl()/60, time.Second/4))
		err := a.beat(call, h)
		cancel()
		if err != nil && jobs.Sleep(ctx, max(h.ttl()/120, time.Second)) != nil {
			return
		}
	}
}

// deliverOnce tries once. It returns nil when it is done, an error that wraps
// errNotYet when it is to be tried again, and one that wraps jobs.ErrLeaseLost
// when it is done but came too late.
func (a *Agent) deliverOnce(ctx context.Context, h *hand, results chan struct{}) error {
	if a.step(h) == stepResult {
		select {
		case results <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errNotYet, context.Cause(ctx))
		}
		err := a.deliverResult(ctx, h)
		<-results
		if err != nil || a.step(h) == stepResult {
			return err
		}
	}
	return a.deliverFailure(ctx, h)
}

// deliverResult posts a result. One that cannot be delivered becomes a failure,
// which is left to the caller.
func (a *Agent) deliverResult(ctx context.Context, h *hand) error {
	if age := time.Since(h.EndedAt); age > keepAside {
		return a.giveUp(ctx, h, fmt.Sprintf("it could not be delivered for %s", age.Round(time.Hour)))
	}
	ask, code, err := a.result(ctx, h.Object)
	switch {
	case code != "":
		a.Log.ErrorContext(ctx, "a result cannot be delivered, its job is reported as failed", "job", h.JobID, "object", h.Object, "err", err)
		return a.become(h, failedAsk(h.LeaseID, code, err.Error(), "", code == failResultMissing))
	case err != nil:
		return fmt.Errorf("%w: %w", errNotYet, err)
	}
	ask.LeaseID = h.LeaseID
	answer, err := a.Gateway.Result(ctx, string(h.JobID), ask)
	e := (*Error)(nil)
	switch {
	case err == nil:
		a.Log.DebugContext(ctx, "result delivered", "job", h.JobID, "idempotent", answer.Idempotent)
		a.finished(ctx, h, true)
		return nil
	case !errors.As(err, &e) || !e.decided() || e.unauthorized():
		// Without a token that is good a result still is: a person may put one there.
		return fmt.Errorf("%w: %w", errNotYet, err)
	case e.Status == http.StatusRequestEntityTooLarge:
		// It may be the limit of a proxy on the way, which its owner can lift.
		path, kept := a.outbox.keep(rejectedDir, h.entry, ask, err.Error())
		if kept != nil {
			return fmt.Errorf("%w: keep a rejected result: %w", errNotYet, kept)
		}
		a.Log.ErrorContext(ctx, "the gateway, or a proxy on the way, takes no result as large as this one; it is kept aside and its job is reported as failed",
			"job", h.JobID, "file", path, "err", err)
		return a.become(h, failedAsk(h.LeaseID, FailResultTooLarge, "the gateway takes no result as large as this one", "", false))
	case e.Code == AlreadyFinished:
		a.Log.WarnContext(ctx, "job has finished with another result, this one is dropped", "job", h.JobID, "err", err)
		a.finished(ctx, h, true)
		return nil
	case e.Status == http.StatusConflict:
		return a.tooLate(ctx, h, ask, err)
	}
	return a.rejected(ctx, h, ask, e)
}

// result reads a result from the store. A code says that trying again will not
// help, and with which failure the job is to be reported.
func (a *Agent) result(ctx context.Context, object string) (ask ResultAsk, code string, err error) {
	const limit = MaxResultBody - resultOverhead
	r, err := a.Store.Open(ctx, object)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return ResultAsk{}, failResultMissing, fmt.Errorf("the result is not in the worker's store any more: %w", err)
	}
	if err != nil {
		return ResultAsk{}, "", err
	}
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	_ = r.Close() // it was only read
	switch {
	case err != nil:
		return ResultAsk{}, "", err
	case len(text) > limit:
		return ResultAsk{}, FailResultTooLarge, fmt.Errorf("the result is larger than %d bytes", limit)
	}
	ask, err = resultOf(text)
	if err != nil {
		return ResultAsk{}, failResultInvalid, fmt.Errorf("the result is not one of this protocol: %w", err)
	}
	return ask, "", nil
}

// become makes a failure of a result. The one is on disk before the control
// plane hears of it, so that it never hears of both.
func (a *Agent) become(h *hand, failed *FailedAsk) error {
	h.io.Lock()
	defer h.io.Unlock()
	e := a.entryOf(h)
	e.State, e.Failed = stepFailed, failed
	if err := a.change(h, e); err != nil {
		return fmt.Errorf("%w: %w", errNotYet, err)
	}
	return nil
}

// tooLate keeps a result whose lease was lost.
func (a *Agent) tooLate(ctx context.Context, h *hand, ask ResultAsk, cause error) error {
	path, err := a.outbox.keep(lateDir, h.entry, ask, cause.Error())
	if err != nil {
		return fmt.Errorf("%w: keep a late result: %w", errNotYet, err)
	}
	a.Log.WarnContext(ctx, "the result came after its lease was lost; the gateway may have kept it for 24 h, for an operator to accept, and here it is kept for 7 days",
		"job", h.JobID, "file", path, "err", cause)
	a.finished(ctx, h, false)
	return fmt.Errorf("%w: %w", jobs.ErrLeaseLost, cause)
}

// rejected keeps a result that the control plane does not take, and ends the
// lease: the next run would be no better.
func (a *Agent) rejected(ctx context.Context, h *hand, ask ResultAsk, e *Error) error {
	path, err := a.outbox.keep(rejectedDir, h.entry, ask, e.Error())
	if err != nil {
		return fmt.Errorf("%w: keep a rejected result: %w", errNotYet, err)
	}
	a.Log.ErrorContext(ctx, "the gateway does not take a result, which is kept aside", "job", h.JobID, "file", path, "err", e)
	if e.Status == http.StatusNotFound || e.Status == http.StatusForbidden {
		a.finished(ctx, h, false) // there is nobody to tell
		return nil
	}
	return a.become(h, failedAsk(h.LeaseID, failResultRejected, "the gateway does not take the result: "+e.Message, "", false))
}

// giveUp keeps a result aside that was never delivered.
func (a *Agent) giveUp(ctx context.Context, h *hand, why string) error {
	ask, code, err := a.result(ctx, h.Object)
	switch {
	case code != "": // there is nothing to keep
		a.Log.ErrorContext(ctx, "a result is given up and lost", "job", h.JobID, "why", why, "err", err)
	case err != nil:
		return fmt.Errorf("%w: %w", errNotYet, err)
	default:
		path, err := a.outbox.keep(rejectedDir, h.entry, ask, why)
		if err != nil {
			return fmt.Errorf("%w: keep a result: %w", errNotYet, err)
		}
		a.Log.ErrorContext(ctx, "a result is given up and kept aside", "job", h.JobID, "file", path, "why", why)
	}
	a.finished(ctx, h, false)
	return nil
}

// deliverFailure posts a failure.
func (a *Agent) deliverFailure(ctx context.Context, h *hand) error {
	if age := time.Since(h.EndedAt); age > keepAside {
		a.Log.ErrorContext(ctx, "the report of a failure is given up", "job", h.JobID, "code", h.Failed.ErrorCode, "age", age.Round(time.Hour))
		a.finished(ctx, h, false)
		return nil
	}
	answer, err := a.Gateway.Failed(ctx, string(h.JobID), *h.Failed)
	e := (*Error)(nil)
	switch {
	case err == nil:
		a.Log.InfoContext(ctx, "failure delivered", "job", h.JobID, "code", h.Failed.ErrorCode, "runs_again", answer.Requeued, "retries", answer.RetryCount)
		a.finished(ctx, h, !answer.Requeued)
		return nil
	case !errors.As(err, &e) || !e.decided() || e.unauthorized():
		return fmt.Errorf("%w: %w", errNotYet, err)
	}
	a.Log.WarnContext(ctx, "the gateway does not take the report of a failure, which is dropped", "job", h.JobID, "code", h.Failed.ErrorCode, "err", err)
	a.finished(ctx, h, false)
	if e.Code == LeaseLost {
		return err
	}
	return nil
}

// finished ends a lease: nothing more is to be said. What the handler has of the
// job is deleted if it is over, and kept for a while if the job may come back.
func (a *Agent) finished(ctx context.Context, h *hand, over bool) {
	e := a.entryOf(h)
	if !over {
		if err := a.keepLeft(ctx, e); err != nil {
			a.Log.WarnContext(ctx, "cannot write state directory, what it says is delivered again after a restart", "job", e.JobID, "err", err)
		}
		return
	}
	if err := a.outbox.remove(e); err != nil {
		a.Log.WarnContext(ctx, "cannot write state directory, what it says is delivered again after a restart", "job", e.JobID, "err", err)
	}
	a.mu.Lock()
	a.drop(e.LeaseID)
	a.mu.Unlock()
	a.forget(ctx, e.JobID)
}

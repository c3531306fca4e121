package sim

import (
	"context"
	"errors"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor"
)

// again runs jobs of which some attempts fail and are to be made again.
type again struct {
	*processor.Pages
	f *fleet
}

// failing is the key under which a context says that the attempt is to fail.
type failing struct{}

// RunAttempt implements [worker.AttemptHandler].
func (h again) RunAttempt(ctx context.Context, a jobs.Attempt) (jobs.Result, error) {
	does := h.f.byID[a.Job.ID]
	more := a.Failures < does.failures
	result, err := h.Run(context.WithValue(ctx, failing{}, more), a.Job, a.Report)
	if !more || err == nil || errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), ownFault) {
		return result, err
	}
	h.f.ledger.attemptFailed(a.Job.ID)
	return result, &jobs.Failure{Code: faultCode, Err: err, Retry: true, RetryAfter: does.backoff}
}

// attemptFailed is told that an attempt has failed and is to be made again.
func (l *ledger) attemptFailed(id jobs.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts[id].failed++
	l.w.note("an attempt at job %s fails", id)
}

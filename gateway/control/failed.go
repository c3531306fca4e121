package control

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// final are the codes of failures that would come again.
var final = []string{wire.FailResultTooLarge, wire.FailInvalidInput, wire.FailQEInput, wire.FailQENotConverged}

// askedRetries is how often a job runs again whose worker asks for that.
const askedRetries = 10

const codeLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// parseFailed returns the failure that a worker reports. Texts that are too long
// are cut: a failure that cannot be reported would cost the job its whole lease.
func parseFailed(a *wire.FailedRequest) (queue.Failure, error) {
	if a.ErrorCode == "" {
		return queue.Failure{}, missing("error_code")
	}
	f := queue.Failure{
		Code: jobs.Clip(a.ErrorCode, wire.MaxErrorCode, ""), Message: shown(a.ErrorMessage, wire.MaxErrorMessage),
		Traceback: shown(a.Traceback, wire.MaxTraceback), RetryPolicy: queue.Retry,
	}
	if strings.Trim(f.Code, codeLetters) != "" {
		return queue.Failure{}, invalid("error_code", "want a word of A-Z, 0-9 and _, such as QE_RUNTIME_ERROR")
	}
	switch {
	case slices.Contains(final, f.Code):
		f.RetryPolicy = queue.Final
	case f.Code == wire.FailCanceled: // the queue knows whether that was asked for
	case a.Retryable != nil && !*a.Retryable:
		f.RetryPolicy = queue.Final
	case f.Code == wire.FailWorkerShutdown:
		f.RetryPolicy = queue.ReturnUncounted
	case a.Kind != "" && a.RetryAfterSeconds != nil:
		s := *a.RetryAfterSeconds
		if !(s >= 0 && s <= wire.MaxRetryAfter) {
			return queue.Failure{}, invalid("retry_after_seconds", "want 0 to %d", wire.MaxRetryAfter)
		}
		f.RetryPolicy, f.Waits = queue.RetryByKind, slices.Repeat([]time.Duration{time.Duration(s * float64(time.Second))}, askedRetries)
	}
	return f, nil
}

func (c *Control) failed(ctx context.Context, from call, failure queue.Failure) (any, error) {
	ctx = context.WithoutCancel(ctx)
	c.kinds().retryByKind(c.Queue, from.Kind, &failure)
	outcome, err := c.Queue.Fail(ctx, from.Caller, from.job, from.lease, failure)
	if err != nil {
		return nil, err
	}
	if !outcome.Duplicate {
		c.Metrics.failures.WithLabelValues(resultWord(outcome)).Inc()
		if outcome.Dead {
			c.logDeadLetter(ctx, from.job, failure.Code, outcome.Retries)
		} else { // what the worker says of it is in the job's record
			c.Log.InfoContext(ctx, "job failed", "job", from.job, "code", failure.Code, "outcome", resultWord(outcome), "retries", outcome.Retries)
		}
		if failure.RetryPolicy == queue.ReturnUncounted {
			c.waiting.wake(plainKind(from.Kind), 1)
		}
	}
	return failedResponse(outcome), nil
}

func failedResponse(f queue.FailResult) wire.FailedResponse {
	return wire.FailedResponse{OK: true, Requeued: f.Requeued, RetryCount: f.Retries}
}

// logDeadLetter logs that a job has become a dead letter.
func (c *Control) logDeadLetter(ctx context.Context, id jobs.ID, code string, retries int) {
	c.Log.WarnContext(ctx, "job is a dead letter", "job", id, "code", code, "retries", retries)
}

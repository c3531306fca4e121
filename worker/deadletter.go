package worker

import (
	"context"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

// DeadLetters keeps messages of jobs that have failed for good. People look at them, and
// may queue the jobs again once the cause is fixed.
type DeadLetters interface {
	// Add keeps the message behind a lease. When it returns nil the dead letter is
	// durable. A message may be added more than once.
	Add(ctx context.Context, lease jobs.Lease, info DeadLetterInfo) error
}

// DeadLetterInfo is why and when a message became a dead letter.
type DeadLetterInfo struct {
	At      time.Time
	Cause   string // CauseFailed or CauseMalformed
	Reason  string // for people
	Attempt int    // starts of the job; 0 if it was never started
}

// The causes of a dead letter.
const (
	CauseFailed    = "failed"    // the job has failed for good
	CauseMalformed = "malformed" // the message names no job
)

// deadLetterTimeout bounds one call to add a dead letter, which may carry a message of
// 10 MB.
const deadLetterTimeout = 30 * time.Second

// deadLetter adds the message of the attempt to the dead letters, if the worker keeps
// them.
func (a *attempt) deadLetter(ctx context.Context, info DeadLetterInfo) error {
	if a.DeadLetters == nil {
		return nil
	}
	info.At = time.Now()
	err := a.retry(ctx, "add the dead letter", deadLetterTimeout, a.Metrics.deadLetterRetries, func(call context.Context) error {
		return a.DeadLetters.Add(call, a.lease, info)
	})
	if err == nil {
		a.Metrics.deadLetters.WithLabelValues(info.Cause).Inc()
	}
	return err
}

// malformed acks a message that names no job. It has no status, so the failure is only
// in the log and among the dead letters.
func (a *attempt) malformed(ctx context.Context) error {
	raw := a.lease.Raw
	a.Metrics.malformed.Inc()
	a.Log.ErrorContext(ctx, "message names no job", "message_id", raw.ID, "bytes", len(raw.Data), "kept_as_dead_letter", a.DeadLetters != nil, "err", a.lease.Invalid)
	if err := a.deadLetter(ctx, DeadLetterInfo{Cause: CauseMalformed, Reason: redact.Reason(a.lease.Invalid.Error())}); err != nil {
		return err
	}
	a.release()
	a.ack(ctx, a.lease)
	return nil
}

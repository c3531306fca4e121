package worker

import (
	"context"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// DeadLetters is where messages are kept that will not be tried again, for
// people to look at, and to queue anew once they have mended the cause.
type DeadLetters interface {
	// Bury keeps the message behind a lease, and why it is dead. When it returns
	// nil the letter is durable. A message may be buried more than once.
	Bury(ctx context.Context, lease jobs.Lease, d Death) error
}

// Death is why and when a message was given up.
type Death struct {
	At      time.Time
	Reason  string // for people
	Attempt int    // starts of the job; 0 if it was never started
}

// buryTimeout bounds one call to bury, which may carry a message of 10 MB.
const buryTimeout = 30 * time.Second

// bury puts the message of the attempt among the dead letters, if there is such a
// place. An error says that it is not there.
func (a *attempt) bury(ctx context.Context, d Death) error {
	if a.DeadLetters == nil {
		return nil
	}
	d.At = time.Now()
	err := a.insist(ctx, "bury the dead letter", buryTimeout, a.Metrics.deadLetterRetries, func(call context.Context) error {
		return a.DeadLetters.Bury(call, a.lease, d)
	})
	if err == nil {
		a.Metrics.deadLetters.WithLabelValues(cause(a.lease)).Inc()
	}
	return err
}

// cause is the word for what kind of death a lease has died.
func cause(lease jobs.Lease) string {
	if lease.Job.ID == "" {
		return causeMalformed
	}
	return causeFailed
}

// The causes of death.
const (
	causeFailed    = "failed"
	causeMalformed = "malformed"
)

// malformed ends a message that names no job. No status can tell of it, so the
// log does, and the dead letters.
func (a *attempt) malformed(ctx context.Context) error {
	raw := a.lease.Raw
	a.Metrics.malformed.Inc()
	a.Log.ErrorContext(ctx, "message names no job", "message_id", raw.ID, "bytes", len(raw.Data), "kept_as_dead_letter", a.DeadLetters != nil, "err", a.lease.Invalid)
	if err := a.bury(ctx, Death{Reason: redact(a.lease.Invalid.Error())}); err != nil {
		return err
	}
	a.release()
	a.ack(ctx, a.lease)
	return nil
}

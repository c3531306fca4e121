package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

const (
	// payEvery is how often Redis is told of attempts that it could not be told of.
	payEvery = time.Second
	// payFor is for how long. A worker takes no jobs without Redis, so it owes few.
	payFor = time.Hour
)

// owed are the attempts that a worker gave up while Redis could not be told. Their
// claims run out, and whoever claims the job next takes them for crashes. Its methods
// may be called concurrently.
type owed struct {
	status Status
	log    *slog.Logger

	mu    sync.Mutex
	debts []debt
	paid  chan struct{} // closed while there are none
}

type debt struct {
	claim   jobs.Claim
	message string // of the release
	since   time.Time
}

func newOwed(s Status, log *slog.Logger) *owed {
	o := &owed{status: s, log: log, paid: make(chan struct{})}
	close(o.paid)
	return o
}

func (o *owed) add(c jobs.Claim, message string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.debts) == 0 {
		o.paid = make(chan struct{})
	}
	o.debts = append(o.debts, debt{c, message, time.Now()})
}

// state returns what is owed, and a channel that is closed once nothing is.
func (o *owed) state() ([]debt, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.debts), o.paid
}

// pay tells Redis what is owed, and stops at the first error. Paying twice does no harm.
func (o *owed) pay(ctx context.Context) error {
	debts, _ := o.state()
	for _, d := range debts {
		err := o.status.Release(ctx, d.claim, d.message)
		if err != nil && !errors.Is(err, jobs.ErrLeaseLost) && time.Since(d.since) < payFor {
			return err
		}
		o.log.InfoContext(ctx, "attempt given back late", "job", d.claim.Job, "attempt", d.claim.Attempt, "after", time.Since(d.since), "err", err)
		o.drop(d.claim)
	}
	return nil
}

func (o *owed) drop(c jobs.Claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	had := len(o.debts) > 0
	o.debts = slices.DeleteFunc(o.debts, func(d debt) bool { return d.claim.Job == c.Job && d.claim.Token == c.Token })
	if had && len(o.debts) == 0 {
		close(o.paid)
	}
}

// run pays until ctx ends.
func (o *owed) run(ctx context.Context) {
	for jobs.Sleep(ctx, payEvery) == nil {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		_ = o.pay(call) // and again
		cancel()
	}
}

// wait returns when nothing is owed, or after a last try once ctx ends or hurry is
// closed.
func (o *owed) wait(ctx context.Context, hurry <-chan struct{}) {
	_, paid := o.state()
	select {
	case <-paid:
		return
	case <-ctx.Done():
	case <-hurry:
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer cancel()
	if err := o.pay(call); err != nil {
		o.log.WarnContext(ctx, "attempts that were given up count as crashes: Redis cannot be told", "err", err)
	}
}

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
	// payEvery is the pause between tries to release given-up attempts.
	payEvery = time.Second
	// payFor is how long a release is retried before it is dropped.
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

// pay releases the given-up attempts at a job, or at all jobs when id is empty. Paying
// twice does no harm.
func (o *owed) pay(ctx context.Context, id jobs.ID) error {
	debts, _ := o.state()
	errs := make([]error, len(debts))
	var releases sync.WaitGroup // at once: a part of Redis that hangs delays no other
	for i, d := range debts {
		if id == "" || d.claim.Job == id {
			releases.Go(func() { errs[i] = o.release(ctx, d) })
		}
	}
	releases.Wait()
	return errors.Join(errs...)
}

// release returns an error if d is still owed.
func (o *owed) release(ctx context.Context, d debt) error {
	err := o.status.Release(ctx, d.claim, d.message)
	released := err == nil || errors.Is(err, jobs.ErrLeaseLost) // lost to another attempt, after this one's crash was taken off
	if !released && time.Since(d.since) < payFor {
		return err
	}
	if !o.drop(d.claim) {
		return nil // another call has just paid it
	}
	log := o.log.With("job", d.claim.Job, "attempt", d.claim.Attempt, "after", time.Since(d.since))
	if released {
		log.InfoContext(ctx, "attempt released late")
	} else {
		log.WarnContext(ctx, "gave up releasing attempt; it counts as a crash", "err", err)
	}
	return nil
}

// drop reports whether the claim was still owed.
func (o *owed) drop(c jobs.Claim) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	had := len(o.debts)
	o.debts = slices.DeleteFunc(o.debts, func(d debt) bool { return d.claim.Job == c.Job && d.claim.Token == c.Token })
	if had > 0 && len(o.debts) == 0 {
		close(o.paid)
	}
	return len(o.debts) < had
}

// run pays until ctx ends.
func (o *owed) run(ctx context.Context) {
	for jobs.Sleep(ctx, payEvery) == nil {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		_ = o.pay(call, "") // and again
		cancel()
	}
}

// wait returns when nothing is owed, or after a last try once ctx ends or forceStop is
// closed.
func (o *owed) wait(ctx context.Context, forceStop <-chan struct{}) {
	_, paid := o.state()
	select {
	case <-paid:
		return
	case <-ctx.Done():
	case <-forceStop:
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalCallTimeout)
	defer cancel()
	if err := o.pay(call, ""); err != nil {
		left, _ := o.state()
		o.log.WarnContext(ctx, "cannot release given-up attempts; they will count as crashes", "attempts", len(left), "err", err)
	}
}

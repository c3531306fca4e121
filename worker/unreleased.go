package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/trace"
)

const (
	// releaseEvery is the pause between tries to release the claims of ended attempts.
	releaseEvery = time.Second
	// releaseFor is how long a release is retried before it is dropped.
	releaseFor = time.Hour
)

// unreleased are the claims of attempts that a worker has handed back while Redis was
// away. Such a claim ends by itself, and the next claim of the job counts the attempt
// as a crash. Its methods may be called concurrently.
type unreleased struct {
	status Status
	log    *slog.Logger

	mu     sync.Mutex
	claims []unreleasedClaim
	none   chan struct{} // closed while there are none
}

type unreleasedClaim struct {
	jobs.Claim

	message string // of the release
	trace   string // the traceparent of the attempt
	since   time.Time
}

func newUnreleased(s Status, log *slog.Logger) *unreleased {
	u := &unreleased{status: s, log: log, none: make(chan struct{})}
	close(u.none)
	return u
}

func (u *unreleased) add(c jobs.Claim, message, traceparent string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.claims) == 0 {
		u.none = make(chan struct{})
	}
	u.claims = append(u.claims, unreleasedClaim{c, message, traceparent, time.Now()})
}

// state returns the claims, and a channel that is closed once there are none.
func (u *unreleased) state() ([]unreleasedClaim, <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.claims), u.none
}

// release releases the claims on a job, or on all jobs when id is empty. Releasing twice
// does no harm.
func (u *unreleased) release(ctx context.Context, id jobs.ID) error {
	claims, _ := u.state()
	errs := make([]error, len(claims))
	var releases sync.WaitGroup // at once: a part of Redis that hangs delays no other
	for i, c := range claims {
		if id == "" || c.Job == id {
			releases.Go(func() { errs[i] = u.releaseOne(ctx, c) })
		}
	}
	releases.Wait()
	return errors.Join(errs...)
}

// releaseOne returns an error if c is still to be released.
func (u *unreleased) releaseOne(ctx context.Context, c unreleasedClaim) error {
	err := u.status.Release(ctx, c.Claim, c.message)
	released := err == nil || errors.Is(err, jobs.ErrLeaseLost) // lost to another attempt, after this one's crash was taken off
	if !released && time.Since(c.since) < releaseFor {
		return err
	}
	if !u.remove(c.Claim) {
		return nil // another call has just released it
	}
	ctx = trace.With(ctx, c.trace)
	log := u.log.With("job", c.Job, "attempt", c.Attempt, "after", time.Since(c.since))
	if released {
		log.InfoContext(ctx, "attempt released late")
	} else {
		log.WarnContext(ctx, "gave up releasing attempt; it counts as a crash", "err", err)
	}
	return nil
}

// remove reports whether the claim was among them.
func (u *unreleased) remove(c jobs.Claim) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	had := len(u.claims)
	u.claims = slices.DeleteFunc(u.claims, func(o unreleasedClaim) bool { return o.Job == c.Job && o.Token == c.Token })
	if had > 0 && len(u.claims) == 0 {
		close(u.none)
	}
	return len(u.claims) < had
}

// run releases until ctx ends.
func (u *unreleased) run(ctx context.Context) {
	for jobs.Sleep(ctx, releaseEvery) == nil {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		_ = u.release(call, "") // and again
		cancel()
	}
}

// wait returns when there are none, or after a last try once ctx ends or forceStop is
// closed.
func (u *unreleased) wait(ctx context.Context, forceStop <-chan struct{}) {
	_, none := u.state()
	select {
	case <-none:
		return
	case <-ctx.Done():
	case <-forceStop:
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalCallTimeout)
	defer cancel()
	if err := u.release(call, ""); err != nil {
		left, _ := u.state()
		u.log.WarnContext(ctx, "cannot release given-up attempts; they will count as crashes", "attempts", len(left), "err", err)
	}
}

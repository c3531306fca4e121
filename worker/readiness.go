package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/retry"
)

// errUnready is the cause of a lease call that was cut short because the
// worker can no longer record what it would run.
var errUnready = errors.New("worker is not ready")

// errStarting is the state before the first checks.
var errStarting = errors.New("starting")

// ErrDraining is what a check returns while an operator asks that no jobs be taken.
// The worker is healthy: it checks again as often as when all checks pass.
var ErrDraining = errors.New("draining: asked by an operator")

// readiness keeps the worker from leasing while one of its checks fails. It starts
// unready: the first round of checks changes that. That the source does not answer makes
// the worker unready too, and does not keep it from asking.
type readiness struct {
	checks  map[string]func(context.Context) error
	every   time.Duration
	log     *slog.Logger
	metrics *Metrics
	recheck chan struct{} // asks for a round of checks now

	mu        sync.Mutex
	stopped   bool          // it does not become ready again
	fails     int           // how often fail was called
	why       error         // nil while jobs are asked for
	source    error         // why none come, though they are asked for; nil while the source answers
	isReady   chan struct{} // closed while jobs are asked for
	isUnready chan struct{} // closed while they are not
}

func newReadiness(checks map[string]func(context.Context) error, every time.Duration, log *slog.Logger, m *Metrics) *readiness {
	r := &readiness{
		checks: checks, every: every, log: log, metrics: m,
		recheck: make(chan struct{}, 1), why: errStarting,
		isReady: make(chan struct{}), isUnready: make(chan struct{}),
	}
	close(r.isUnready)
	return r
}

// state returns nil while the worker is ready, or why it is not: because of its checks, or because
// its source does not answer.
func (r *readiness) state() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stateLocked()
}

func (r *readiness) stateLocked() error { // r.mu is held
	switch {
	case r.why == nil:
		return r.source
	case r.source == nil || r.stopped || errors.Is(r.why, ErrDraining):
		return r.why
	}
	return fmt.Errorf("%w; %w", r.why, r.source)
}

// setSource sets why the source cannot be asked for jobs, nil if it can, and reports whether
// it is one and was not the other. Unlike a failed check it does not stop the leasing.
func (r *readiness) setSource(why error) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = (r.source == nil) != (why == nil)
	r.source = why
	r.showLocked()
	return changed
}

// hasOutage reports whether the source cannot be asked for jobs.
func (r *readiness) hasOutage() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source != nil
}

// seen returns how often fail was called, and what the checks say.
func (r *readiness) seen() (fails int, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fails, r.why
}

func (r *readiness) set(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(why)
}

func (r *readiness) put(why error) { // r.mu is held
	if r.stopped {
		return
	}
	switch was := r.why; {
	case was != nil && why == nil:
		close(r.isReady)
		r.isUnready = make(chan struct{})
	case was == nil && why != nil:
		close(r.isUnready)
		r.isReady = make(chan struct{})
	}
	r.why = why
	r.showLocked()
}

func (r *readiness) showLocked() { // r.mu is held
	ready, draining := 0.0, 0.0
	switch state := r.stateLocked(); {
	case state == nil:
		ready = 1
	case errors.Is(state, ErrDraining):
		draining = 1
	}
	r.metrics.ready.Set(ready)
	r.metrics.draining.Set(draining)
}

// stop makes the worker unready for good.
func (r *readiness) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(errors.New("stopping"))
	r.stopped = true
}

// fail records that the infrastructure has failed a job: no further job is leased until
// the checks pass again.
func (r *readiness) fail(err error) {
	r.mu.Lock()
	r.fails++
	r.put(err)
	r.mu.Unlock()
	r.checkAgain()
}

// checkAgain asks for a round of checks now.
func (r *readiness) checkAgain() {
	select {
	case r.recheck <- struct{}{}:
	default:
	}
}

// wait returns when the checks pass, or the cause of ctx when ctx ends first.
func (r *readiness) wait(ctx context.Context) error {
	r.mu.Lock()
	ready := r.isReady
	r.mu.Unlock()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-ready:
		return nil
	}
}

// unready returns a channel that is closed while the checks do not pass.
func (r *readiness) unready() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isUnready
}

// recheckPolicy is how soon failed checks are run again.
var recheckPolicy = retry.Policy{First: 500 * time.Millisecond, Max: 15 * time.Second}

// watch runs the checks until ctx ends: rarely while they pass or the fleet drains,
// at growing intervals up to 15 s while they do not.
func (r *readiness) watch(ctx context.Context) {
	delay, wait := time.Duration(0), recheckPolicy.Delays()
	for {
		before, was := r.seen()
		err := r.check(ctx)
		if ctx.Err() != nil {
			return
		}
		if after, trouble := r.seen(); err == nil && after != before {
			err = trouble // the checks passed before the infrastructure failed: check again
		}
		r.set(err)
		if err == nil {
			if delay > 0 {
				r.log.InfoContext(ctx, "ready again")
			}
			delay = 0
			wait.Reset()
		} else if errors.Is(err, ErrDraining) {
			delay = r.every
			if !errors.Is(was, ErrDraining) {
				r.log.InfoContext(ctx, "no jobs are taken, those in hand go on", "err", err)
			}
		} else {
			delay = wait.Next()
			if was == nil || was.Error() != err.Error() {
				r.log.WarnContext(ctx, "not ready: no jobs are taken until this is fixed", "err", err)
			}
		}
		pause := delay
		if err == nil {
			pause = r.every
		}
		next := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case <-next.C:
		case <-r.recheck:
			next.Stop()
			// What has just failed is likely to fail again at once.
			if jobs.Sleep(ctx, max(delay, 250*time.Millisecond)) != nil {
				return
			}
		}
	}
}

// check runs all checks at once and returns what is wrong, in a fixed order.
func (r *readiness) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var wrong []string
	draining := false
	for name, check := range r.checks {
		wg.Go(func() {
			err := check(ctx)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, ErrDraining) {
				draining = true
			} else if err != nil {
				wrong = append(wrong, fmt.Sprintf("%s: %v", name, err))
			}
		})
	}
	wg.Wait()
	if wrong == nil && draining {
		return ErrDraining
	}
	if wrong == nil {
		return nil
	}
	slices.Sort(wrong)
	return errors.New(strings.Join(wrong, "; "))
}

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
)

// errGateShut is the cause of a lease call that was cut short because the
// worker can no longer record what it would run.
var errGateShut = errors.New("worker is not ready")

// errStarting is the state before the first checks.
var errStarting = errors.New("starting")

// ErrDraining is what a check returns while an operator asks that no jobs be taken.
// The worker is well: it looks again as often as when all checks pass.
var ErrDraining = errors.New("draining: asked by an operator")

// gate keeps the worker from leasing while one of its checks fails. It starts
// shut: the first round of checks opens it.
type gate struct {
	checks  map[string]func(context.Context) error
	every   time.Duration
	log     *slog.Logger
	metrics *Metrics
	look    chan struct{} // asks for a round of checks now

	mu     sync.Mutex
	over   bool          // stopped: it does not open again
	fails  int           // how often fail was called
	why    error         // nil while open
	opened chan struct{} // closed while open
	shut   chan struct{} // closed while shut
}

func newGate(checks map[string]func(context.Context) error, every time.Duration, log *slog.Logger, m *Metrics) *gate {
	g := &gate{
		checks: checks, every: every, log: log, metrics: m,
		look: make(chan struct{}, 1), why: errStarting,
		opened: make(chan struct{}), shut: make(chan struct{}),
	}
	close(g.shut)
	return g
}

func (g *gate) state() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

// seen returns how often fail was called, and the state.
func (g *gate) seen() (fails int, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fails, g.why
}

func (g *gate) set(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.put(why)
}

func (g *gate) put(why error) { // g.mu is held
	if g.over {
		return
	}
	switch was := g.why; {
	case was != nil && why == nil:
		close(g.opened)
		g.shut = make(chan struct{})
		g.metrics.ready.Set(1)
	case was == nil && why != nil:
		close(g.shut)
		g.opened = make(chan struct{})
		g.metrics.ready.Set(0)
	}
	g.why = why
	g.metrics.draining.Set(0)
	if errors.Is(why, ErrDraining) {
		g.metrics.draining.Set(1)
	}
}

// stop shuts the gate for good.
func (g *gate) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.put(errors.New("stopping"))
	g.over = true
}

// fail says that the infrastructure has let a job down: no further job is
// leased until the checks pass again.
func (g *gate) fail(err error) {
	g.mu.Lock()
	g.fails++
	g.put(err)
	g.mu.Unlock()
	select {
	case g.look <- struct{}{}:
	default:
	}
}

// wait returns when the gate is open, or the cause of ctx when ctx ends first.
func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-opened:
		return nil
	}
}

// whenShut returns a channel that is closed while the gate is shut.
func (g *gate) whenShut() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}

// watch runs the checks until ctx ends: rarely while they pass or the fleet drains,
// at growing intervals up to 15 s while they do not.
func (g *gate) watch(ctx context.Context) {
	delay := time.Duration(0)
	for {
		before, was := g.seen()
		err := g.check(ctx)
		if ctx.Err() != nil {
			return
		}
		if after, trouble := g.seen(); err == nil && after != before {
			err = trouble // the checks passed before a job was let down: look again
		}
		g.set(err)
		if err == nil {
			if delay > 0 {
				g.log.InfoContext(ctx, "ready again")
			}
			delay = 0
		} else if errors.Is(err, ErrDraining) {
			delay = g.every
			if !errors.Is(was, ErrDraining) {
				g.log.InfoContext(ctx, "no jobs are taken, those in hand go on", "err", err)
			}
		} else {
			delay = min(max(2*delay, 500*time.Millisecond), 15*time.Second)
			if was == nil || was.Error() != err.Error() {
				g.log.WarnContext(ctx, "not ready: no jobs are taken until this is mended", "err", err)
			}
		}
		pause := delay
		if err == nil {
			pause = g.every
		}
		next := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case <-next.C:
		case <-g.look:
			next.Stop()
			// What has just failed is likely to fail again at once.
			if jobs.Sleep(ctx, max(delay, 250*time.Millisecond)) != nil {
				return
			}
		}
	}
}

// check runs all checks at once and returns what is wrong, in a fixed order.
func (g *gate) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var wrong []string
	draining := false
	for name, check := range g.checks {
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

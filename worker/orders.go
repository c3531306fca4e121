package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/batchfleet/batchfleet/jobs"
)

// Commander is a [Registry] that answers reports with orders. Its methods are those of [status.Member].
//
// [status.Member]: https://pkg.go.dev/github.com/batchfleet/batchfleet/status#Member
type Commander interface {
	Registry
	// Orders returns what the last report was answered: whether the worker shall take no jobs until it is
	// told otherwise, and of which kinds it shall begin none.
	Orders() (drain bool, paused []jobs.Kind)
}

// orders are what a worker was told last.
type orders struct {
	drain  bool
	paused []jobs.Kind // sorted
}

// follow takes note of the orders that a report was answered with.
func (w *Worker) follow(ctx context.Context) {
	c, ok := w.Registry.(Commander)
	if !ok {
		return
	}
	drain, paused := c.Orders()
	now := &orders{drain, slices.Sorted(slices.Values(paused))}
	before := w.ordered.Swap(now)
	if before == nil {
		before = &orders{}
	}
	if !slices.Equal(before.paused, now.paused) {
		w.Log.InfoContext(ctx, "other kinds are paused", "kinds", now.paused)
	}
	if before.drain != now.drain {
		w.readiness.checkAgain()
	}
}

// checks returns those of the worker, and whether it was told to take no jobs.
func (w *Worker) checks() map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{}
	maps.Copy(all, w.Checks)
	all["orders"] = func(context.Context) error {
		if o := w.ordered.Load(); o != nil && o.drain {
			return ErrDraining
		}
		return nil
	}
	return all
}

// leavePaused hands a job back whose kind is paused, and reports whether it has. It was not claimed, so nothing counts.
// A job that has ended is not left: its claim tells what is to be done. The delay is short, so that a kind runs again soon after its pause.
func (w *Worker) leavePaused(ctx context.Context, lease jobs.Lease) bool {
	job, o := lease.Job, w.ordered.Load()
	if o == nil || job.ID == "" || lease.Invalid != nil {
		return false
	}
	if _, paused := slices.BinarySearch(o.paused, job.Kind); !paused || w.hasEnded(ctx, job) {
		return false
	}
	delay := fullDelay()
	w.Log.DebugContext(ctx, "kind is paused, job handed back", "job", job.ID, "kind", job.Kind, "retry_in", delay)
	w.Metrics.handedBack.WithLabelValues("paused").Inc()
	w.nack(ctx, lease, delay)
	return true
}

// hasEnded keeps a job of a paused kind on record, and reports whether it has ended.
func (w *Worker) hasEnded(ctx context.Context, job jobs.Job) bool {
	s, ok := w.Status.(KindStatus)
	if !ok {
		return false
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, state, err := s.Leave(call, job, fmt.Sprintf("kind %q is paused", job.Kind))
	if err != nil && ctx.Err() == nil {
		w.readiness.fail(err)
	}
	return err == nil && state.Terminal()
}

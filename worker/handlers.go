package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// errReplaced is the cause that ends a request for jobs of kinds that may be others now.
var errReplaced = errors.New("the worker has other handlers now")

// handlers are what runs each kind, and do not change.
type handlers struct {
	byKind   map[jobs.Kind]Handler
	replaced chan struct{} // closed when others have taken their place
}

// Replace gives the worker other handlers than those in Handlers. It may be called while the worker
// runs, but not concurrently. A job that runs keeps its handler; the next ones get the new ones, and
// those whose kind has none any more are left to other workers. Pools stay as they are: a kind that
// none of them names has the slots of all such kinds.
func (w *Worker) Replace(byKind map[jobs.Kind]Handler) {
	before := w.handlers.Swap(&handlers{maps.Clone(byKind), make(chan struct{})})
	if before != nil {
		close(before.replaced)
	}
}

// current returns the handlers for jobs that begin now.
func (w *Worker) current() *handlers {
	if now := w.handlers.Load(); now != nil {
		return now
	}
	w.handlers.CompareAndSwap(nil, &handlers{w.Handlers, make(chan struct{})})
	return w.handlers.Load()
}

// kinds returns the kinds that a pool asks for: those of its own, or all that no pool names, and of
// these the ones that there is a handler for.
func (ps *pools) kinds(p *pool, now *handlers) []jobs.Kind {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(now.byKind)), func(kind jobs.Kind) bool { return ps.of(kind) != p })
}

// LongestJob returns the longest time that an attempt at a job may take.
func (w *Worker) LongestJob() time.Duration {
	longest := w.JobTimeout
	for _, h := range w.current().byKind {
		if h, ok := h.(TimeLimiter); ok {
			longest = max(longest, h.TimeLimit())
		}
	}
	return longest
}

// leaveInTime stops the leasing when no more of MaxRuntime is left than a job may need. It returns then, or when ctx ends.
func (w *Worker) leaveInTime(ctx context.Context, began time.Time, stop context.CancelCauseFunc) {
	for {
		now := w.current()
		timer := time.NewTimer(time.Until(began.Add(w.MaxRuntime - w.LongestJob() - RuntimeMargin)))
		select {
		case <-timer.C:
			stop(errRuntime)
			return
		case <-now.replaced:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

var (
	_ jobapi.Runner    = (*Engine)(nil)
	_ jobapi.Notifier  = (*Engine)(nil)
	_ jobapi.Feed      = (*Engine)(nil)
	_ jobapi.Counter   = (*Engine)(nil)
	_ jobapi.Explainer = (*Engine)(nil)
	_ jobapi.Catalog   = (*Engine)(nil)
)

// Count implements [jobapi.Counter]. Totals and hours begin with the process. No job of an engine is a dead letter.
func (e *Engine) Count(context.Context) (jobapi.Counts, error) {
	e.lock()
	defer e.mu.Unlock()
	return e.tally.Counts(func(kind string) time.Time {
		if i := slices.IndexFunc(e.waiting, func(j *job) bool { return j.op.Name == kind }); i >= 0 {
			return e.waiting[i].created
		}
		return time.Time{}
	}), nil
}

// Kinds implements [jobapi.Catalog]: the operations. The engine is their one worker.
func (e *Engine) Kinds(context.Context) (all []jobapi.Kind, err error) {
	e.once.Do(e.prepare)
	for _, op := range e.Supported {
		k := jobapi.Kind{Name: op.Name, Input: "none", Workers: 1, Slots: e.Limits.MaxRunning}
		if op.Load {
			k.Cap = e.Limits.MaxLoad
		}
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b jobapi.Kind) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Why implements [jobapi.Explainer].
func (e *Engine) Why(_ context.Context, id string) ([]jobapi.Reason, error) {
	e.lock()
	defer e.mu.Unlock()
	j := e.byID[id]
	if j == nil {
		return nil, jobapi.NoJob(id)
	}
	switch j.status {
	case jobs.Queued:
		return []jobapi.Reason{e.whyQueued(j)}, nil
	case jobs.Running:
		return []jobapi.Reason{{
			Code: jobapi.WhyLeased, Message: "This server runs it" + after(j.reached()) + ".", Since: jobapi.At(j.started),
			Until: jobapi.At(j.started.Add(j.timeout)),
		}}, nil
	case jobs.Succeeded, jobs.Failed, jobs.Canceled:
	}
	return []jobapi.Reason{jobapi.Ended(j.status, j.failed, j.finished)}, nil
}

// whyQueued says what a queued job waits for: those before it, or one of the limits.
func (e *Engine) whyQueued(j *job) jobapi.Reason {
	ahead := slices.Index(e.waiting, j)
	r := jobapi.Reason{Code: jobapi.WhyQueued, Ahead: &ahead, Since: jobapi.At(j.created)}
	switch load := e.loads(); {
	case len(e.running) > 0 && len(e.running) >= e.Limits.MaxRunning:
		r.Message = fmt.Sprintf("Scope %s runs at most %s at a time; the oldest that runs is %s.", e.Scope, jobs.Count(e.Limits.MaxRunning, "job"), e.running[0].id)
	case j.op.Load && len(load) >= e.Limits.MaxLoad:
		r.Message = fmt.Sprintf("At most %s at a time may put load on the fleet; %s does.", jobs.Count(e.Limits.MaxLoad, "job"), load[0].id)
	default:
		r.Message = "It is about to start."
	}
	if ahead > 0 {
		r.Message += fmt.Sprintf(" %s %s queued before it.", jobs.Count(ahead, "job"), jobs.Are(ahead))
	}
	return r
}

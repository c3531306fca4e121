package operations

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
)

// Bulk returns the operations cancel and retry of scope utils, which act on all jobs of a scope that match a filter.
// scopes has the jobs by the name of their scope.
func Bulk(scopes map[string]jobapi.Jobs) []engine.Operation {
	operation := func(do bulkAction) engine.Operation {
		return engine.Operation{Name: do.name, New: func() engine.Request {
			return &bulk{do: do, scopes: scopes, retryFor: pollRetryFor, every: time.Second}
		}}
	}
	return []engine.Operation{operation(cancelAll), operation(retryAll)}
}

// bulkAction is what is done to each of the jobs.
type bulkAction struct {
	name, done string
	states     []jobs.State // of jobs that it can be done to, in the order in which they are looked for
	refused    string       // what is wrong with another state
	watch      bool         // whether those that fail again count as errors
	// of returns what does it to a job, nil where that cannot be done.
	of func(jobapi.Jobs) func(ctx context.Context, id string) (jobapi.Job, error)
}

var (
	cancelAll = bulkAction{
		// Queued ones first: those that start meanwhile are met among the running ones.
		name: "cancel", done: "canceled", states: []jobs.State{jobs.Queued, jobs.Running},
		refused: "want queued or running: other jobs have ended",
		of: func(j jobapi.Jobs) func(context.Context, string) (jobapi.Job, error) {
			return j.Cancel
		},
	}
	retryAll = bulkAction{
		name: "retry", done: "queued again", states: []jobs.State{jobs.Failed}, watch: true,
		refused: "want failed: other jobs cannot run again",
		of: func(j jobapi.Jobs) func(context.Context, string) (jobapi.Job, error) {
			if retrier, ok := j.(jobapi.Retrier); ok {
				return retrier.Retry
			}
			return nil
		},
	}
)

// bulk does the same to all jobs of a scope that match a filter.
type bulk struct {
	jobapi.Options
	bulkFilter
	Rate      *float64 `json:"ratePerSecond"`
	MaxJobs   *int64   `json:"maxJobs"`
	StopAfter *int64   `json:"stopAfterErrors"`

	do       bulkAction
	scopes   map[string]jobapi.Jobs
	retryFor time.Duration // how long a call is made again while the store of the jobs is away
	every    time.Duration // how often the jobs that were queued again are looked at

	chosen *selection // set by Check
	act    func(ctx context.Context, id string) (jobapi.Job, error)
	found  counted // set by the first step
}

// Check implements [engine.Request]. Which jobs are meant is settled here: those that are made later are not.
func (o *bulk) Check() error {
	in, ok := o.scopes[o.Scope]
	if !ok {
		return &jobapi.FieldError{Field: "scope", Problem: "want " + strings.Join(slices.Sorted(maps.Keys(o.scopes)), ", ")}
	}
	if o.act = o.do.of(in); o.act == nil {
		return &jobapi.FieldError{Field: "scope", Problem: "its jobs cannot run again"}
	}
	chosen, err := o.selection(in, o.do, time.Now())
	if err != nil {
		return err
	}
	o.chosen = chosen
	return cmp.Or(
		within("ratePerSecond", &o.Rate, 50, 0.01, 1000),
		within("maxJobs", &o.MaxJobs, 1_000_000, 1, 1_000_000),
		within("stopAfterErrors", &o.StopAfter, 20, 1, 1000),
	)
}

// Echo implements [engine.Request].
func (o *bulk) Echo() any {
	return struct {
		jobapi.Options
		shownFilter
		Rate      *float64 `json:"ratePerSecond"`
		MaxJobs   *int64   `json:"maxJobs"`
		StopAfter *int64   `json:"stopAfterErrors"`
	}{o.Options, o.shown(), o.Rate, o.MaxJobs, o.StopAfter}
}

// Steps implements [engine.Request].
func (o *bulk) Steps() []engine.Step {
	count := engine.Step{Name: "count", Description: "count the jobs that match", Run: o.count}
	if o.DryRun {
		count.AlreadyDone = o.plan
	}
	act := engine.Step{Name: o.do.name, Description: o.described(), AlreadyDone: o.none, Run: o.run}
	return []engine.Step{count, act}
}

func (o *bulk) described() string {
	return fmt.Sprintf("%s them, newest first, at most %g a second and %s", o.do.name, *o.Rate, jobs.Count(int(*o.MaxJobs), "job"))
}

// Limits of a count.
const (
	maxCounted = 10_000 // jobs that match
	maxNamed   = 5      // of them
)

// counted is how many jobs match.
type counted struct {
	jobs  int
	more  bool     // there may be more
	first []string // ids, the newest first
}

// String says it in words.
func (c counted) String() string {
	switch {
	case c.jobs == 0 && c.more:
		return "none was found in time, there may be some"
	case c.jobs == 0:
		return "no job matches"
	}
	named := strings.Join(c.first, ", ")
	if c.jobs > len(c.first) || c.more {
		named += ", …"
	}
	return c.number() + ": " + named
}

func (c counted) number() string {
	if c.more {
		return "at least " + jobs.Count(c.jobs, "job")
	}
	return jobs.Count(c.jobs, "job")
}

// plan is what a dry run says.
func (o *bulk) plan(ctx context.Context) (string, bool, error) {
	if err := o.look(ctx); err != nil {
		return "", false, err
	}
	return o.found.String(), o.found.jobs == 0 && !o.found.more, nil
}

func (o *bulk) count(ctx context.Context, r engine.Run) (string, error) {
	err := o.patiently(ctx, r, func() error { return o.look(ctx) })
	return o.found.String(), err
}

// none is whether there is nothing to do.
func (o *bulk) none(context.Context) (string, bool, error) {
	none := o.found.jobs == 0 && !o.found.more
	return map[bool]string{true: o.found.String()}[none], none, nil
}

// look counts the jobs that match, up to maxCounted and for countTime at most.
func (o *bulk) look(ctx context.Context) error {
	counting, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	o.found = counted{}
	err := o.chosen.walk(counting, once, func(ids []string) error {
		o.found.first = append(o.found.first, ids[:min(len(ids), maxNamed-len(o.found.first))]...)
		if o.found.jobs += len(ids); o.found.jobs >= maxCounted {
			o.found.more = true
			return errEnough
		}
		return nil
	})
	if counting.Err() != nil && ctx.Err() == nil {
		o.found.more = true
		return nil
	}
	return err
}

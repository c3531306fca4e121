package leader

import (
	"context"
	"fmt"
	"strings"

	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobapi"
)

// Workers implements [jobapi.Workforce]: those that are connected, and for an hour those that were lost. Their kinds are the execs of their patterns.
func (j Jobs) Workers(ctx context.Context) (all []jobapi.Worker, err error) {
	var connected, lost []schedule.Worker
	if err := j.do(ctx, func(c *schedule.Core) { connected, lost = c.Workers(), c.Lost() }); err != nil {
		return nil, err
	}
	for _, w := range connected {
		one := j.worker(w)
		one.Seen = jobapi.At(j.Leader.started.Add(j.Leader.now())) // a silent connection is closed
		all = append(all, one)
	}
	for _, w := range lost {
		one := j.worker(w)
		one.State = "silent"
		all = append(all, one)
	}
	return all, nil
}

func (j Jobs) worker(w schedule.Worker) jobapi.Worker {
	at := func(m schedule.Moment) jobapi.Time { return jobapi.At(j.Leader.started.Add(m)) }
	one := jobapi.Worker{
		ID: w.ID.String(), Name: jobapi.ShownText(w.Host, 255), Host: jobapi.ShownText(w.Host, 255), Kinds: []string{execsOf(w.Pattern)}, Slots: slotsOf(w),
		Jobs: len(w.Running), State: "idle", Started: at(w.Since), Seen: at(w.Seen),
	}
	switch {
	case w.Draining:
		one.State = "draining"
	case len(w.Running) > 0:
		one.State = "working"
	}
	return one
}

// execsOf returns which execs a pattern stands for: a name, or one with wildcards.
func execsOf(pattern string) string { return strings.TrimPrefix(pattern, wire.AssignPrefix) }

// slotsOf returns how many jobs a worker can have: what it has declared, or else what it has and has asked for.
func slotsOf(w schedule.Worker) int {
	if w.Limit < wire.MaxParallel {
		return max(w.Limit, len(w.Running))
	}
	return w.Credit + len(w.Running)
}

// DrainWorker implements [jobapi.Drainer]: the worker is given no more jobs, also over its next connections to this leader, until the leader ends. Those that it
// has go on.
func (j Jobs) DrainWorker(ctx context.Context, id string) error { return j.withhold(ctx, id, true) }

// ResumeWorker implements [jobapi.Drainer]. A worker that is stopping by itself goes on doing so.
func (j Jobs) ResumeWorker(ctx context.Context, id string) error { return j.withhold(ctx, id, false) }

func (j Jobs) withhold(ctx context.Context, id string, withheld bool) error {
	guid, _ := wire.ParseGUID(id) // no worker has the zero one
	known := false
	if err := j.do(ctx, func(c *schedule.Core) { known = c.Withhold(j.Leader.now(), guid, withheld) }); err != nil {
		return err
	}
	if !known || guid.IsZero() {
		return fmt.Errorf("worker %.40q: %w", id, jobapi.ErrNoWorker)
	}
	j.Leader.Log.InfoContext(ctx, "whether a worker is given jobs was changed", "worker", guid.String(), "withheld", withheld)
	return nil
}

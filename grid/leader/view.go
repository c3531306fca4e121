package leader

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/subject"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// Changes implements [jobapi.Feed].
func (j Jobs) Changes(ctx context.Context, after string) (ids []string, next string, lost bool, err error) {
	select {
	case <-j.Leader.ended:
		return nil, "", false, fmt.Errorf("%w: %w", jobs.ErrUnavailable, ErrStopped)
	default:
	}
	return j.Leader.changes.Changes(ctx, after)
}

// Count implements [jobapi.Counter]. Totals and hours begin with the process.
func (j Jobs) Count(ctx context.Context) (jobapi.Counts, error) {
	oldest, dead := map[string]time.Time{}, 0
	if err := j.do(ctx, func(c *schedule.Core) {
		dead = c.Numbers().Dead
		for _, e := range c.Execs() {
			oldest[e.Name] = j.Leader.started.Add(e.Born)
		}
	}); err != nil {
		return jobapi.Counts{}, err
	}
	c := j.Leader.tally.Counts(func(kind string) time.Time { return oldest[kind] })
	c.DeadLetters = dead
	return c, nil
}

// untilMs returns a time as the state compares it with the times of jobs: in Unix milliseconds, rounded up; 0 for none.
func untilMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Add(time.Millisecond - 1).UnixMilli()
}

// Kinds implements [jobapi.Catalog]: the execs that have jobs queued, running or paused, and those that live workers name without wildcards.
func (j Jobs) Kinds(ctx context.Context) ([]jobapi.Kind, error) {
	counts, err := j.Count(ctx)
	if err != nil {
		return nil, err
	}
	names, patterns := map[string]bool{}, map[string]*jobapi.Kind{} // of the workers together
	for _, k := range counts.Kinds {
		names[k.Kind] = true
	}
	if err := j.do(ctx, func(c *schedule.Core) {
		for _, p := range c.Paused() {
			names[p.Exec] = true
		}
		for _, w := range c.Workers() {
			if exec := execsOf(w.Pattern); wire.CheckExecName(exec) == nil {
				names[exec] = true
			}
			if patterns[w.Pattern] == nil {
				patterns[w.Pattern] = &jobapi.Kind{}
			}
			patterns[w.Pattern].Workers++
			patterns[w.Pattern].Slots += slotsOf(w)
		}
	}); err != nil {
		return nil, err
	}
	all := make([]jobapi.Kind, 0, len(names))
	for _, name := range slices.SortedFunc(maps.Keys(names), strings.Compare) {
		k := jobapi.Kind{Name: name, Input: "none"}
		for pattern, of := range patterns {
			if subject.Match(pattern, wire.AssignPrefix+name) {
				k.Workers, k.Slots = k.Workers+of.Workers, k.Slots+of.Slots
			}
		}
		all = append(all, k)
	}
	return all, nil
}

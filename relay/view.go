package relay

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// Changes implements [jobapi.Feed].
func (j Jobs) Changes(ctx context.Context, after string) (ids []string, next string, lost bool, err error) {
	return j.Relay.tasks.changes.Changes(ctx, after)
}

// Count implements [jobapi.Counter]. Totals and hours begin with the process. Dead letters are tasks whose upload has failed: it can be made
// again.
func (j Jobs) Count(context.Context) (jobapi.Counts, error) {
	ts := j.Relay.tasks
	c := ts.tally.Counts(ts.oldest)
	c.DeadLetters = int(ts.unsent.Load())
	return c, nil
}

// Kinds implements [jobapi.Catalog]: those of the kinds file. The relay is their one worker.
func (j Jobs) Kinds(context.Context) (all []jobapi.Kind, err error) {
	for _, k := range j.Relay.Kinds().Kinds {
		one := jobapi.Kind{Name: string(k.Name), Description: k.Description, Params: k.Schema(), Input: inputOf(k), Cap: k.Slots}
		if j.Relay.runs(k) {
			one.Workers, one.Slots = 1, max(1, j.Relay.slotsOf(k))
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b jobapi.Kind) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// inputOf says which assets a task of a kind has.
func inputOf(k *kinds.Kind) string {
	switch {
	case k.OneInput():
		return "one"
	case k.NeedsInput():
		return "many"
	}
	return "optional"
}

// slotsOf returns how many tasks of a kind can run at once; 0 if that is not known.
func (r *Relay) slotsOf(k *kinds.Kind) int {
	switch {
	case k.Slots > 0:
		return k.Slots
	case k.GPUs > 0:
		return len(strings.Split(r.GPUs, ",")) / k.GPUs
	}
	return r.Slots
}

// Pause implements [jobapi.Pauser]: no task of the kind is started, also after a restart.
func (j Jobs) Pause(ctx context.Context, kind string) error {
	if err := j.known(kind); err != nil {
		return err
	}
	if err := j.Relay.paused.pause(jobs.Kind(kind)); err != nil {
		return err
	}
	j.Relay.Log.InfoContext(ctx, "a kind is paused", "kind", kind)
	j.Relay.tasks.changes.Wake()
	return nil
}

// Resume implements [jobapi.Pauser].
func (j Jobs) Resume(ctx context.Context, kind string) error {
	if err := j.known(kind); err != nil {
		return err
	}
	if err := j.Relay.paused.resume(jobs.Kind(kind)); err != nil {
		return err
	}
	j.Relay.Log.InfoContext(ctx, "a kind is not paused any more", "kind", kind)
	j.Relay.queue.Wake()
	j.Relay.tasks.changes.Wake()
	return nil
}

// known returns an error for a kind that is neither in the kinds file, nor paused, nor one of tasks that have not ended.
func (j Jobs) known(kind string) error {
	if j.Relay.Kinds().Get(jobs.Kind(kind)) == nil && !j.Relay.paused.has(jobs.Kind(kind)) && !j.Relay.tasks.tally.Has(kind) {
		return fmt.Errorf("kind %.60q: %w", kind, jobapi.ErrNoKind)
	}
	return nil
}

// Paused implements [jobapi.Pauser].
func (j Jobs) Paused(context.Context) ([]jobapi.Paused, error) { return j.Relay.paused.all(), nil }

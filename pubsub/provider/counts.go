package provider

import (
	"context"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/status"
)

var (
	_ jobapi.Counter = (*Fleet)(nil)
	_ jobapi.Feed    = (*Fleet)(nil)
)

// Count implements [jobapi.Counter]. Dead letters are in Pub/Sub, which counts none.
func (f *Fleet) Count(ctx context.Context) (jobapi.Counts, error) {
	c, err := f.Status.Count(ctx)
	if err != nil {
		return jobapi.Counts{}, err
	}
	counts := jobapi.Counts{States: c.States, DeadLetters: -1, Total: jobapi.Flow(c.Total)}
	for _, k := range c.Kinds {
		counts.Kinds = addKind(counts.Kinds, jobapi.KindCount{Kind: shownKind(k.Kind), Queued: k.Queued, Running: k.Running, Oldest: k.Oldest})
	}
	for _, hour := range c.Hours {
		counts.Hours = append(counts.Hours, jobapi.Flow(hour))
	}
	return counts, nil
}

// addKind adds a kind, or its numbers to that of the same name: several may be shown as unknown.
func addKind(all []jobapi.KindCount, k jobapi.KindCount) []jobapi.KindCount {
	i, there := slices.BinarySearchFunc(all, k.Kind, func(a jobapi.KindCount, name string) int { return strings.Compare(a.Kind, name) })
	if !there {
		return slices.Insert(all, i, k)
	}
	had := &all[i]
	if had.Queued, had.Running = had.Queued+k.Queued, had.Running+k.Running; had.Oldest.IsZero() || !k.Oldest.IsZero() && k.Oldest.Before(had.Oldest) {
		had.Oldest = k.Oldest
	}
	return all
}

// Changes implements [jobapi.Feed].
func (f *Fleet) Changes(ctx context.Context, after string) (ids []string, next string, lost bool, err error) {
	return f.Status.Changes(ctx, after)
}

var _ = [1]struct{}{}[status.MaxChanges-jobapi.MaxGet] // they are the same

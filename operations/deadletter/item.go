// Package deadletter lists dead letters and queues their jobs again. The dlq commands
// and the operation utils.redrive use it.
package deadletter

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/pubsub"
)

// Item holds the dead letters of one name, at least one: of one job, or of one message
// that names no job, newest first.
type Item []pubsub.DeadLetter

// Last returns the newest dead letter, which stands for all.
func (d Item) Last() pubsub.DeadLetter { return d[0] }

// Name is what people call all of them.
func (d Item) Name() string { return d[0].Name() }

// group groups dead letters by name, newest first.
func group(messages []pubsub.DeadLetter) []Item {
	newestFirst := func(a, b pubsub.DeadLetter) int { return b.At.Compare(a.At) }
	byName := map[string]Item{}
	for _, l := range messages {
		byName[l.Name()] = append(byName[l.Name()], l)
	}
	all := slices.Collect(maps.Values(byName))
	for _, d := range all {
		slices.SortStableFunc(d, newestFirst)
	}
	slices.SortFunc(all, func(a, b Item) int {
		return cmp.Or(newestFirst(a.Last(), b.Last()), strings.Compare(a.Name(), b.Name()))
	})
	return all
}

// Named returns the items with the given names, and the names without an item.
func Named(all []Item, names []string) (found []Item, missing []string) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if i := slices.IndexFunc(all, func(d Item) bool { return d.Name() == name }); i >= 0 {
			found = append(found, all[i])
		} else {
			missing = append(missing, name)
		}
	}
	return found, missing
}

// Package deadletter looks at dead letters and queues their jobs again, for whoever asks:
// the commands called dlq and the operation utils.redrive.
package deadletter

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/pubsub"
)

// Item is what was given up under one name: the letters of one job, or of one
// message that names no job, newest first.
type Item struct {
	Name    string
	Letters []pubsub.DeadLetter // at least one
}

// Last is the newest of its letters, which stands for all.
func (d Item) Last() pubsub.DeadLetter { return d.Letters[0] }

// Group puts letters of one name together, newest first.
func Group(letters []pubsub.DeadLetter) []Item {
	newestFirst := func(a, b pubsub.DeadLetter) int { return b.At.Compare(a.At) }
	byName := map[string]Item{}
	for _, l := range letters {
		name := l.Name()
		byName[name] = Item{name, append(byName[name].Letters, l)}
	}
	all := slices.Collect(maps.Values(byName))
	for _, d := range all {
		slices.SortStableFunc(d.Letters, newestFirst)
	}
	slices.SortFunc(all, func(a, b Item) int {
		return cmp.Or(newestFirst(a.Last(), b.Last()), strings.Compare(a.Name, b.Name))
	})
	return all
}

// Letters returns all letters of several.
func Letters(all []Item) []pubsub.DeadLetter {
	var letters []pubsub.DeadLetter
	for _, d := range all {
		letters = append(letters, d.Letters...)
	}
	return letters
}

// Named returns those with the given names, and the names that none has.
func Named(all []Item, names []string) (found []Item, missing []string) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if i := slices.IndexFunc(all, func(d Item) bool { return d.Name == name }); i >= 0 {
			found = append(found, all[i])
		} else {
			missing = append(missing, name)
		}
	}
	return found, missing
}

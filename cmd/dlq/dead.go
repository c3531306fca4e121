// Package dlq looks at dead letters and queues their jobs again, for whoever asks:
// the commands called dlq and the operation utils.redrive.
package dlq

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/worker"
)

// Dead is what was given up under one name: the letters of one job, or of one
// message that names no job, newest first.
type Dead struct {
	Name    string
	Letters []worker.Letter // at least one
}

// Last is the newest of its letters, which stands for all.
func (d Dead) Last() worker.Letter { return d.Letters[0] }

// Group puts letters of one name together, newest first.
func Group(letters []worker.Letter) []Dead {
	newestFirst := func(a, b worker.Letter) int { return b.At.Compare(a.At) }
	byName := map[string]Dead{}
	for _, l := range letters {
		name := l.Name()
		byName[name] = Dead{name, append(byName[name].Letters, l)}
	}
	all := slices.Collect(maps.Values(byName))
	for _, d := range all {
		slices.SortStableFunc(d.Letters, newestFirst)
	}
	slices.SortFunc(all, func(a, b Dead) int {
		return cmp.Or(newestFirst(a.Last(), b.Last()), strings.Compare(a.Name, b.Name))
	})
	return all
}

// Letters returns all letters of several.
func Letters(all []Dead) []worker.Letter {
	var letters []worker.Letter
	for _, d := range all {
		letters = append(letters, d.Letters...)
	}
	return letters
}

// Named returns those with the given names, and the names that none has.
func Named(all []Dead, names []string) (found []Dead, missing []string) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if i := slices.IndexFunc(all, func(d Dead) bool { return d.Name == name }); i >= 0 {
			found = append(found, all[i])
		} else {
			missing = append(missing, name)
		}
	}
	return found, missing
}

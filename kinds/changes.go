package kinds

import (
	"reflect"

	"github.com/batchfleet/batchfleet/jobs"
)

// Changes says in what a set of kinds differs from an earlier one, in the order of their files.
type Changes struct{ Added, Removed, Changed []jobs.Kind }

// ChangesSince compares s with an earlier set. A kind that only has another place in its file has not
// changed. Of a program only the path is compared, not what is in it.
func (s *Set) ChangesSince(earlier *Set) (c Changes) {
	for _, k := range s.Kinds {
		switch before := earlier.Get(k.Name); {
		case before == nil:
			c.Added = append(c.Added, k.Name)
		case !before.equal(k):
			c.Changed = append(c.Changed, k.Name)
		}
	}
	for _, k := range earlier.Kinds {
		if s.Get(k.Name) == nil {
			c.Removed = append(c.Removed, k.Name)
		}
	}
	return c
}

func (k *Kind) equal(other *Kind) bool {
	a, b := *k, *other
	a.at, b.at = 0, 0
	return reflect.DeepEqual(a, b)
}

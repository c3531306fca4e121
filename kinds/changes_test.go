package kinds_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

func TestK01ChangesOfAFileAreNamed(t *testing.T) {
	const before = `
[same]
command = ["true", "{params.n}"]
progress = '^(\d+)%$'
params.n = {type = "integer", min = 1, max = 9, default = 3}
[gone]
command = ["true"]
[other]
command = ["true"]
[limits]
command = ["true", "{params.n}"]
params.n = {type = "integer", max = 9}
`
	const after = `
# Another place, another spelling, the same kind.
[new]
command = ["true"]
[same]
progress = "^(\\d+)%$"
command = ["true",
	"{params.n}"]
[same.params.n]
type = "integer"
default = 3
max = 9
min = 1
[limits]
command = ["true", "{params.n}"]
params.n = {type = "integer", max = 10}
[other]
command = ["true", "it"]
`
	parse := func(text string) *kinds.Set {
		t.Helper()
		set, err := kinds.Parse("kinds.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	for _, tt := range []struct {
		name          string
		before, after string
		want          kinds.Changes
	}{
		{"nothing", before, before, kinds.Changes{}},
		{"all sorts", before, after, kinds.Changes{Added: []jobs.Kind{"new"}, Removed: []jobs.Kind{"gone"}, Changed: []jobs.Kind{"limits", "other"}}},
		{"all are new", "", before, kinds.Changes{Added: []jobs.Kind{"same", "gone", "other", "limits"}}},
		{"all are gone", before, "", kinds.Changes{Removed: []jobs.Kind{"same", "gone", "other", "limits"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parse(tt.after).ChangesSince(parse(tt.before))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

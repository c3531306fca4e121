package provider_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestD01FleetCountsItsJobs(t *testing.T) {
	r := newFleetRig(t)
	a := r.submit("a")
	b := r.submit("b")
	if _, err := r.st.Submit(t.Context(), jobs.Job{ID: "s", Kind: "sk-live-0123456789abcdefghijkl"}); err != nil { // it looks like a key
		t.Fatal(err)
	}
	if _, err := r.st.Submit(t.Context(), jobs.Job{ID: "n"}); err != nil {
		t.Fatal(err)
	}
	r.finish(r.claim(a), jobs.Outcome{State: jobs.Failed, Reason: "r"})
	c, err := r.fleet.Count(t.Context())
	if err != nil || len(c.Hours) == 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	want := []jobapi.KindCount{{Kind: "pdf", Queued: 1}, {Kind: "unknown", Queued: 2}}
	for i := range c.Kinds {
		c.Kinds[i].Oldest = jobapi.KindCount{}.Oldest
	}
	if diff := cmp.Diff(want, c.Kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if c.States[jobs.Queued] != 3 || c.States[jobs.Failed] != 1 || c.Total.In != 4 || c.Total.Failed != 1 || c.DeadLetters != -1 {
		t.Errorf("counted %+v", c)
	}
	r.claim(b)
}

func TestD09FleetTellsItsChanges(t *testing.T) {
	r := newFleetRig(t)
	_, at, _, err := r.fleet.Changes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	r.submit("a")
	ids, _, lost, err := r.fleet.Changes(t.Context(), at)
	if err != nil || lost || !slices.Equal(ids, []string{"a"}) {
		t.Errorf("%v, %v, %v", ids, lost, err)
	}
}

package dashboard

import (
	"testing"

	"github.com/batchfleet/batchfleet/jobapi"
)

func TestD01OperationsOfTheServerAreNoWorkOfTheFleet(t *testing.T) {
	kind := func(name string, queued int) []jobapi.KindOverview {
		return []jobapi.KindOverview{{Kind: name, Queued: queued}}
	}
	n := now{Overview: jobapi.Overview{Scopes: []jobapi.ScopeOverview{
		{Name: "system", Kinds: kind("drain", 1), States: map[string]int{"queued": 1}},
		{Name: "utils", Kinds: kind("purge", 2), States: map[string]int{"queued": 2}},
		{Name: "fleet", Kinds: kind("pdf", 4), States: map[string]int{"queued": 4}},
	}}}
	n.sum()
	if len(n.Kinds) != 1 || n.Kinds[0].Kind != "pdf" || n.Queued != 4 {
		t.Errorf("%d jobs are queued, of kinds %+v; want 4 of pdf", n.Queued, n.Kinds)
	}
}

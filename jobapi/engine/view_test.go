package engine

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/batchfleet/batchfleet/jobapi"
)

func TestD30LimitsOfAnEngineAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Limits{MaxRunning: 2, MaxQueued: 4})
		why := func(id string) jobapi.Reason {
			t.Helper()
			all, err := e.Why(t.Context(), id)
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			return all[0]
		}
		load := createLoad(t, e)
		held := createLoad(t, e)
		synctest.Wait()
		if r := why(load); r.Code != jobapi.WhyLeased || !r.Until.After(r.Since.Time) || !strings.Contains(r.Message, "This server runs it: step 1/1 one: running") {
			t.Errorf("a job that runs: %+v", r)
		}
		if r := why(held); r.Code != jobapi.WhyQueued || *r.Ahead != 0 || r.Message != "At most 1 job at a time may put load on the fleet; "+load+" does." {
			t.Errorf("a job that would put load on the fleet: %+v, %d", r, *r.Ahead)
		}
		create(t, e, waits("one"))
		last := create(t, e, waits("one"))
		synctest.Wait()
		if r := why(last); r.Code != jobapi.WhyQueued || *r.Ahead != 1 || r.Message != "Scope utils runs at most 2 jobs at a time; the oldest that runs is "+load+". 1 job is queued before it." {
			t.Errorf("a job beyond the limit: %+v", r)
		}
		if kinds, err := e.Kinds(t.Context()); err != nil || len(kinds) != 2 || kinds[0].Name != "go" || kinds[1].Cap != 1 || kinds[0].Slots != 2 {
			t.Errorf("kinds %+v, %v", kinds, err)
		}
		for _, id := range []string{load, held, last} {
			_, _ = e.Cancel(t.Context(), id)
		}
	})
}

func createLoad(t *testing.T, e *Engine) string {
	t.Helper()
	j, err := e.Create(t.Context(), "load", &script{steps: []Step{waits("one")}})
	if err != nil {
		t.Fatal(err)
	}
	return j.ID
}

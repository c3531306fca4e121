package jobapi_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobs"
)

// slowList is a fakeJobs whose lists take a while.
type slowList struct {
	*fakeJobs
	takes time.Duration
}

func (s slowList) List(ctx context.Context, q jobapi.Query) (jobapi.Page, error) {
	time.Sleep(s.takes)
	return s.fakeJobs.List(ctx, q)
}

func TestD21ManyWhoLookCostWhatOneCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := slowList{newFakeJobs(), 50 * time.Millisecond}
		all.put("job_1", "fleet.pdf", jobs.Queued)
		s := &jobapi.Server{Scopes: []jobapi.Scope{{Name: "fleet", Jobs: all, Cancel: access.Operate}}}
		g := serve(t, s)
		for round := 1; round <= 3; round++ {
			var tabs sync.WaitGroup
			for range 100 {
				tabs.Go(func() {
					if a := g.ask(t, "GET /api/v1/fleet/jobs?limit=10", ""); a.status != 200 {
						t.Errorf("%d %s", a.status, a.body)
					}
				})
			}
			tabs.Wait()
			if n := all.called("List"); n != round {
				t.Errorf("round %d: %d lists", round, n)
			}
			time.Sleep(time.Second)
		}
		g.ask(t, "GET /api/v1/fleet/jobs?limit=11", "")
		if n := all.called("List"); n != 4 {
			t.Errorf("another question was answered with what was there: %d lists", n)
		}
		g.stop()
	})
}

func TestD21WhoHasChangedSomethingSeesIt(t *testing.T) {
	s, _ := ableServer()
	g := serve(t, s)
	if a := g.ask(t, "GET /api/v1/fleet/jobs", ""); !strings.Contains(a.body, `"status":"queued"`) {
		t.Fatalf("%s", a.body)
	}
	if a := g.ask(t, "POST /api/v1/fleet/jobs/job_1/cancel", ""); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := g.ask(t, "GET /api/v1/fleet/jobs", ""); !strings.Contains(a.body, `"status":"canceled"`) {
		t.Errorf("after the cancel: %s", a.body)
	}
}

func TestD21WhatFailsIsNotShownToOthersLater(t *testing.T) {
	s, of := ableServer()
	g := serve(t, s)
	of.fail(jobs.ErrUnavailable)
	if a := g.ask(t, "GET /api/v1/fleet/jobs", ""); a.status != 503 {
		t.Errorf("%d %s", a.status, a.body)
	}
	of.fail(nil)
	if a := g.ask(t, "GET /api/v1/fleet/jobs", ""); a.status != 200 {
		t.Errorf("right after: %d %s", a.status, a.body)
	}
}

package jobapi_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobapi/engine"
)

// What follows runs over the engine that runs the jobs of system and utils.

type nap struct {
	jobapi.Options
	Seconds int `json:"seconds"`
}

func (n *nap) Check() error { return nil }
func (n *nap) Echo() any    { return map[string]int{"seconds": n.Seconds} }

func (n *nap) Steps() []engine.Step {
	return []engine.Step{
		{
			Name: "bed", Description: "makes the bed",
			AlreadyDone: func(context.Context) (string, bool, error) { return "the bed is made", true, nil },
			Run:         func(context.Context, engine.Run) (string, error) { return "made", nil },
		},
		{Name: "sleep", Description: "sleeps", Run: func(ctx context.Context, r engine.Run) (string, error) {
			r.Logf("good night")
			select {
			case <-time.After(time.Duration(n.Seconds) * time.Second):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			r.Result(map[string]int{"slept": n.Seconds})
			return "slept well", nil
		}},
	}
}

func withEngine(t *testing.T) *rig {
	t.Helper()
	e := &engine.Engine{
		Scope: "system", Limits: engine.Limits{Exclusive: true},
		Supported: []engine.Operation{{Name: "nap", New: func() engine.Request { return &nap{} }}},
	}
	t.Cleanup(func() { _ = e.Close(context.WithoutCancel(t.Context())) })
	return serve(t, &jobapi.Server{Scopes: []jobapi.Scope{{Name: "system", Jobs: e, Cancel: access.Admin, Create: access.Admin}}})
}

func (g *rig) create(t *testing.T, body string) (path string) {
	t.Helper()
	a := g.ask(t, "POST /api/v1/system/nap", body)
	if a.status != 202 {
		t.Fatalf("create: %d %s", a.status, a.body)
	}
	return a.header.Get("Location")
}

func TestJ03AJobOfTheEngineFromCreateToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := withEngine(t)
		path := g.create(t, `{"seconds":20,"timeoutMs":60000}`)
		f := g.follow(t, path+"/events?logs=true")
		followed, last := "", ""
		var reading sync.WaitGroup // while the job runs: a stream that is not read is cut after 10 s
		reading.Go(func() {
			for said := ""; said != "closed"; {
				said, _ = f.says(t)
				if line, ok := strings.CutPrefix(said, "log"); ok {
					followed += line
				} else if said != "closed" {
					last = said
				}
			}
		})
		if a := g.ask(t, "POST /api/v1/system/nap", ""); a.status != 409 || a.code() != "CONFLICT" || !strings.HasSuffix(path, a.detail("jobId").(string)) {
			t.Errorf("another: %d %s", a.status, a.body)
		}
		began := time.Now()
		a := g.ask(t, "GET "+path+"?wait=60", "")
		if took := time.Since(began); took < 19*time.Second || took > 21*time.Second {
			t.Errorf("it was waited for %s", took)
		}
		var j jobapi.Job
		if err := json.Unmarshal([]byte(a.body), &j); err != nil {
			t.Fatalf("%s: %v", a.body, err)
		}
		if j.Status.String() != "succeeded" || string(j.Result) != `{"slept":20}` || j.Error != nil || j.Progress != (jobapi.Progress{Current: 2, Total: 2, Completed: 2}) ||
			j.Steps[0].Status != jobapi.Skipped || j.Steps[0].Message != "the bed is made" || j.Steps[1].Status != jobapi.Succeeded {
			t.Errorf("%s", a.body)
		}
		reading.Wait()
		log := g.ask(t, "GET "+path+"/logs", "").body
		if want := " " + strings.TrimSuffix(strings.ReplaceAll(log, "\n", " "), " "); followed != want || last != "end" || !strings.Contains(log, "good night\n") {
			t.Errorf("followed %q, the log is %q, the last event %q", followed, want, last)
		}
		if a := g.ask(t, "POST "+path+"/cancel", ""); a.status != 409 || a.detail("status") != "succeeded" {
			t.Errorf("cancel: %d %s", a.status, a.body)
		}
		g.stop()
	})
}

func TestJ14ARunningJobOfTheEngineIsCanceledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := withEngine(t)
		path := g.create(t, `{"seconds":3600}`)
		f := g.follow(t, path+"/events")
		f.want(t, "job running")
		a := g.ask(t, "POST "+path+"/cancel", "")
		var canceled struct{ CanceledAt jobapi.Time }
		var j jobapi.Job
		_ = json.Unmarshal([]byte(a.body), &canceled)
		_ = json.Unmarshal([]byte(g.ask(t, "GET "+path, "").body), &j)
		if a.status != 200 || canceled.CanceledAt.IsZero() || !canceled.CanceledAt.Equal(j.FinishedAt.Time) || j.Status.String() != "canceled" {
			t.Errorf("%d %s, and the job %+v", a.status, a.body, j)
		}
		f.want(t, "job canceled", "end", "closed")
		if a := g.ask(t, "POST "+path+"/cancel", ""); a.status != 409 || a.detail("status") != "canceled" {
			t.Errorf("again: %d %s", a.status, a.body)
		}
		g.stop()
	})
}

func TestJ21J22TimeoutsAndDryRunsOfTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := withEngine(t)
		a := g.ask(t, "POST /api/v1/system/nap?dryRun=true", `{"seconds":1}`)
		if a.status != 200 || !strings.Contains(a.body, `{"step":"bed","action":"skip","reason":"the bed is made"}`) || !strings.Contains(a.body, `"action":"run"`) {
			t.Errorf("dry run: %d %s", a.status, a.body)
		}
		if a := g.ask(t, "GET /api/v1/system/jobs", ""); a.body != `{"items":[]}`+"\n" {
			t.Errorf("after a dry run: %s", a.body)
		}
		path := g.create(t, `{"seconds":3600,"timeoutMs":1000}`)
		a = g.ask(t, "GET "+path+"?wait=60", "")
		if !strings.Contains(a.body, `"status":"failed"`) || !strings.Contains(a.body, `"code":"TIMEOUT"`) {
			t.Errorf("%s", a.body)
		}
		g.stop()
	})
}

func TestJ26ARestartForgetsJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := withEngine(t)
		path := before.create(t, `{"seconds":1}`)
		before.stop()
		after := withEngine(t)
		if a := after.ask(t, "GET "+path, ""); a.status != 404 || a.code() != "NOT_FOUND" || !strings.Contains(a.body, "until it restarts") {
			t.Errorf("%d %s", a.status, a.body)
		}
		after.stop()
	})
}

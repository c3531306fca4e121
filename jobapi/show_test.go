package jobapi_test

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestIfNoneMatchSaysWhetherAJobIsAsItWas(t *testing.T) {
	s, fake := polled()
	g := serve(t, s)
	first := g.ask(t, "GET "+fleetJob, "")
	tag := first.header.Get("ETag")
	if first.status != 200 || tag != `"1"` || !strings.HasSuffix(first.body, "}\n") {
		t.Fatalf("%d %s %s", first.status, tag, first.body)
	}
	for header, want := range map[string]int{
		`"1"`: 304, `W/"1"`: 304, `"0", "1"`: 304, `"x,y" , W/"1"`: 304, "*": 304,
		`"2"`: 200, "1": 200, `"1`: 200, `x, "1"`: 200, "": 200, `""`: 200,
	} {
		a := g.ask(t, "GET "+fleetJob, "", "If-None-Match", header)
		if a.status != want || a.header.Get("ETag") != tag || (a.body == "") != (want == 304) {
			t.Errorf("If-None-Match: %s: %d %q", header, a.status, a.body)
		}
	}
	fake.put("j", "fleet.pdf", jobs.Running)
	if a := g.ask(t, "GET "+fleetJob, "", "If-None-Match", tag); a.status != 200 || a.header.Get("ETag") == tag {
		t.Errorf("after a change: %d %v", a.status, a.header)
	}
}

func TestWaitAnswersWhenTheJobHasChangedOrEnded(t *testing.T) {
	tests := []struct {
		name    string
		match   string
		do      func(*fakeJobs) // after 3 s
		want    int
		took    time.Duration
		status  string
		stopped bool
	}{
		{"nothing happens", `"1"`, nil, 304, 60 * time.Second, "", false},
		{"nothing happens, and nothing was known", "", nil, 200, 60 * time.Second, "running", false},
		{"it changes", `"1"`, func(s *fakeJobs) { s.put("j", "fleet.pdf", jobs.Running) }, 200, 3 * time.Second, "running", false},
		{"it changes, but that is not asked for", "", func(s *fakeJobs) { s.put("j", "fleet.pdf", jobs.Running) }, 200, 60 * time.Second, "running", false},
		{"it ends", "", func(s *fakeJobs) { s.put("j", "fleet.pdf", jobs.Failed) }, 200, 3 * time.Second, "failed", false},
		{"it is not as the caller knows it", `"7"`, nil, 200, 0, "running", false},
		{"it goes away", `"1"`, func(s *fakeJobs) { s.remove("j") }, 404, 3 * time.Second, "", false},
		{"a line is logged", `"1"`, func(s *fakeJobs) { s.say("j", "x") }, 304, 60 * time.Second, "", false},
		{"the store is away for a while", `"1"`, func(s *fakeJobs) { s.fail(jobs.ErrUnavailable) }, 304, 60 * time.Second, "", false},
		{"the server stops", `"1"`, nil, 304, 3 * time.Second, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, fake := polled()
				g := serve(t, s)
				var header []string
				if tt.match != "" {
					header = []string{"If-None-Match", tt.match}
				}
				var other sync.WaitGroup
				other.Go(func() {
					time.Sleep(3 * time.Second)
					if tt.do != nil {
						tt.do(fake)
					}
					if tt.stopped {
						g.stop()
					}
				})
				began := time.Now()
				a := g.ask(t, "GET "+fleetJob+"?wait=60", "", header...)
				if took := time.Since(began); a.status != tt.want || took < tt.took || took > tt.took+400*time.Millisecond ||
					!strings.Contains(a.body, tt.status) {
					t.Errorf("%d after %s, want %d after %s: %s", a.status, took, tt.want, tt.took, a.body)
				}
				other.Wait()
				g.stop()
			})
		})
	}
}

func TestWaitNeverGoesBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		s.Poll = 10 * time.Second // what the hub remembers is old
		g := serve(t, s)
		f := g.follow(t, fleetEvents)
		f.want(t, "job running")
		time.Sleep(3 * time.Second)
		fake.put("j", "fleet.pdf", jobs.Running)
		tag := g.ask(t, "GET "+fleetJob, "").header.Get("ETag")
		if a := g.ask(t, "GET "+fleetJob+"?wait=5", "", "If-None-Match", tag); a.status != 304 {
			t.Errorf("with the newest tag %s: %d, %s", tag, a.status, a.header.Get("ETag"))
		}
		f.close()
		g.stop()
	})
}

// hanging is a fake whose Get does not answer before its time is over.
type hanging struct{ *fakeJobs }

func (h hanging) Get(ctx context.Context, _ []string) ([]jobapi.Job, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAStoreThatHangsHoldsNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		s.Scopes[0].Jobs = hanging{fake}
		g := serve(t, s)
		for path, want := range map[string]time.Duration{"": 5 * time.Second, "?wait=1": time.Second, "?wait=3": 3 * time.Second} {
			time.Sleep(time.Minute) // for the round of the one before
			began := time.Now()
			a := g.ask(t, "GET "+fleetJob+path, "")
			if took := time.Since(began); a.status != 503 || a.code() != "UNAVAILABLE" || took < want || took > want+100*time.Millisecond {
				t.Errorf("%s: %d after %s, want 503 after %s: %s", path, a.status, took, want, a.body)
			}
		}
		g.stop()
	})
}

func TestAServerThatStopsAnswersThoseItHasNotLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		s.Scopes[0].Jobs = hanging{fake}
		g := serve(t, s)
		var all sync.WaitGroup
		for _, path := range []string{fleetJob + "?wait=60", fleetEvents} {
			all.Go(func() {
				if a := g.ask(t, "GET "+path, ""); a.status != 503 || a.code() != "UNAVAILABLE" {
					t.Errorf("%s: %d %s", path, a.status, a.body)
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		g.stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the server took %s to stop", took)
		}
		all.Wait()
	})
}

func TestAWaitOfAnEndedJobIsNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fake := polled()
		fake.put("j", "fleet.pdf", jobs.Succeeded)
		g := serve(t, s)
		began := time.Now()
		if a := g.ask(t, "GET "+fleetJob+"?wait=60", "", "If-None-Match", `"2"`); a.status != 304 || time.Since(began) > time.Second {
			t.Errorf("%d after %s", a.status, time.Since(began))
		}
		g.stop()
	})
}

func FuzzQuery(f *testing.F) {
	for _, q := range []string{"", "limit=1&status=running", "limit=1&limit=1", "cursor=%ff", "a;b", "%", "type=" + strings.Repeat("a", 600)} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.URL.RawQuery = query
		p, err := jobapi.Parameters(r, "limit", "status", "type")
		if err != nil {
			if len(err.Error()) > 300 {
				t.Errorf("a long error for %q: %v", query, err)
			}
			return
		}
		values, _ := url.ParseQuery(query)
		if len(values) != len(p) {
			t.Errorf("%q: %v of %v", query, p, values)
		}
		for name, v := range p {
			if v == "" || len(v) > 512 || values.Get(name) != v || name != "limit" && name != "status" && name != "type" {
				t.Errorf("%q: %s=%q", query, name, v)
			}
		}
	})
}

func FuzzIfNoneMatch(f *testing.F) {
	for _, list := range []string{`"1"`, `W/"1", "2"`, "*", `"`, `"a`, ",,,", "W/W/"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		if jobapi.Matches(list, "v1") && !strings.Contains(list, `"v1"`) && !strings.Contains(list, "*") {
			t.Errorf("%q matches", list)
		}
		if rest := `"v1", ` + list; !jobapi.Matches(rest, "v1") {
			t.Errorf("%q does not match", rest)
		}
	})
}

func TestJ02TimesThatCannotBeWrittenAreNull(t *testing.T) {
	for _, ms := range []int64{math.MaxInt64, math.MinInt64, 253402300800000, -62167219200001} {
		text, err := json.Marshal(jobapi.At(time.UnixMilli(ms)))
		if err != nil || string(text) != "null" {
			t.Errorf("%d ms is written %s, %v", ms, text, err)
		}
	}
	text, _ := json.Marshal(jobapi.At(time.UnixMilli(253402300799999)))
	if string(text) != `"9999-12-31T23:59:59.999Z"` {
		t.Errorf("the last moment is written %s", text)
	}
}

func TestJ02NoOtherStatusIsWritten(t *testing.T) {
	words := []string{"pending", "running", "skipped", "succeeded", "failed", "canceled"}
	for i, want := range words {
		status := jobapi.Pending + jobapi.StepStatus(i) //nolint:gosec // one of six
		if text, err := json.Marshal(status); err != nil || string(text) != `"`+want+`"` {
			t.Errorf("status %d of a step is written %s, %v, want %q", status, text, err, want)
		}
	}
	for _, none := range []jobapi.Job{
		{Status: jobs.Running, Steps: []jobapi.Step{{}}},
		{Status: jobs.Running, Steps: []jobapi.Step{{Status: jobapi.Canceled + 1}}},
		{},
		{Status: jobs.Canceled + 1},
	} {
		if text, err := json.Marshal(none); err == nil {
			t.Errorf("a status that is none is written: %s", text)
		}
	}
}

func TestJ03KeysWithoutAValueAreThere(t *testing.T) {
	tests := []struct {
		name string
		job  jobapi.Job
		want string
	}{
		{
			"queued",
			jobapi.Job{ID: "j", Scope: "utils", Type: "utils.go", Status: jobs.Queued, CreatedAt: jobapi.At(day), Request: json.RawMessage(`{}`), Steps: []jobapi.Step{{Name: "one", Status: jobapi.Pending}}},
			`{"jobId":"j","scope":"utils","type":"utils.go","status":"queued","createdAt":"2026-01-23T09:00:00.000Z","startedAt":null,"finishedAt":null,"request":{},` +
				`"progress":{"currentStep":0,"totalSteps":0,"completedSteps":0},"steps":[{"name":"one","status":"pending","startedAt":null,"finishedAt":null,"message":""}],"result":null,"error":null}`,
		},
		{
			"failed, without steps",
			jobapi.Job{ID: "j", Status: jobs.Failed, CreatedAt: jobapi.At(day.In(time.FixedZone("JST", 9*60*60))), Request: json.RawMessage(`{}`), Error: &jobapi.Error{Code: "FAILED"}},
			`{"jobId":"j","scope":"","type":"","status":"failed","createdAt":"2026-01-23T09:00:00.000Z","startedAt":null,"finishedAt":null,"request":{},` +
				`"progress":{"currentStep":0,"totalSteps":0,"completedSteps":0},"steps":[],"result":null,"error":{"code":"FAILED","message":"","details":{}}}`,
		},
	}
	for _, tt := range tests {
		if text, err := json.Marshal(tt.job); err != nil || string(text) != tt.want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", tt.name, err, text, tt.want)
		}
	}
}

package jobapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobs"
)

// twoScopes returns a server of scopes system and utils, each with a job.
func twoScopes() (*jobapi.Server, *fakeRunner, *fakeRunner) {
	system, utils := &fakeRunner{notifying: notifying{newFakeJobs()}}, &fakeRunner{notifying: notifying{newFakeJobs()}}
	system.put("job_s", "system.start", jobs.Running)
	utils.put("job_u", "utils.purge", jobs.Running)
	return &jobapi.Server{Scopes: []jobapi.Scope{
		{Name: "system", Jobs: system, Cancel: access.Admin, Create: access.Admin},
		{Name: "utils", Jobs: utils, Cancel: access.Operate, Create: access.Operate},
	}, OpenAPI: func() []byte { return []byte("{}\n") }}, system, utils
}

func TestJ01ScopesHaveTheSameRoutesAndOnlyTheirOwnJobs(t *testing.T) {
	s, _, _ := twoScopes()
	g := serve(t, s)
	for _, tt := range []struct{ own, other string }{{"system/jobs/job_s", "utils/jobs/job_s"}, {"utils/jobs/job_u", "system/jobs/job_u"}} {
		for _, route := range []string{"", "/logs"} {
			if a := g.ask(t, "GET /api/v1/"+tt.own+route, ""); a.status != 200 {
				t.Errorf("GET %s%s: %d %s", tt.own, route, a.status, a.body)
			}
		}
		for _, route := range []string{"GET ", "GET /logs", "GET /events", "POST /cancel"} {
			method, tail, _ := strings.Cut(route, " ")
			if a := g.ask(t, method+" /api/v1/"+tt.other+tail, ""); a.status != 404 || a.code() != "NOT_FOUND" {
				t.Errorf("%s %s%s: %d %s", method, tt.other, tail, a.status, a.body)
			}
		}
		if a := g.ask(t, "POST /api/v1/"+tt.own+"/cancel", ""); a.status != 200 {
			t.Errorf("cancel %s: %d %s", tt.own, a.status, a.body)
		}
	}
}

func TestJ07ListIsNewestFirstAndFiltered(t *testing.T) {
	s, system, _ := twoScopes()
	g := serve(t, s)
	for i := range 60 {
		system.put(fmt.Sprintf("job_%02d", i), "system.drain", jobs.Succeeded)
	}
	if a := g.ask(t, "GET /api/v1/system/jobs?limit=2", ""); a.status != 200 ||
		a.body != `{"items":[{"jobId":"job_59","scope":"system","type":"system.drain","status":"succeeded","createdAt":"2026-01-23T09:01:00.000Z","startedAt":null,"finishedAt":"2026-01-23T10:00:00.000Z"},`+
			`{"jobId":"job_58","scope":"system","type":"system.drain","status":"succeeded","createdAt":"2026-01-23T09:00:59.000Z","startedAt":null,"finishedAt":"2026-01-23T10:00:00.000Z"}],"nextCursor":"2"}`+"\n" {
		t.Errorf("two of them: %d %s", a.status, a.body)
	}
	tests := []struct {
		query string
		items int
		more  bool
	}{
		{"", 50, true},
		{"?limit=200", 61, false},
		{"?cursor=50", 11, false},
		{"?status=running", 1, false},
		{"?status=running&type=system.drain", 0, false},
		{"?type=system.start", 1, false},
		{"?type=no.such%20%3Cthing%3E", 0, false},
	}
	for _, tt := range tests {
		a := g.ask(t, "GET /api/v1/system/jobs"+tt.query, "")
		if got := strings.Count(a.body, `"jobId"`); a.status != 200 || got != tt.items || strings.Contains(a.body, "nextCursor") != tt.more {
			t.Errorf("%q: %d, %d items, want %d, and more: %t; %.80s", tt.query, a.status, got, tt.items, tt.more, a.body)
		}
	}
	if a := g.ask(t, "GET /api/v1/system/jobs?type=none", ""); a.body != `{"items":[]}`+"\n" {
		t.Errorf("no items: %s", a.body)
	}
}

func TestJ08BadParametersAreRefusedByName(t *testing.T) {
	s, _, _ := twoScopes()
	g := serve(t, s)
	numbers := func(path, name string, most int) (all [][2]string) {
		for _, v := range []string{"0", "-1", fmt.Sprint(most + 1), "abc", "1e9", "1.0", "+1", "01", "%201", "", "0x1", "99999999999999999999", "%D9%A1"} {
			all = append(all, [2]string{"GET " + path + "?" + name + "=" + v, name})
		}
		return append(all, [2]string{"GET " + path + "?" + name + "=1&" + name + "=1", name}, [2]string{"GET " + path + "?" + name, name})
	}
	const jobs, one = "/api/v1/system/jobs", "/api/v1/system/jobs/job_s"
	tests := numbers(jobs, "limit", 200)
	tests = append(tests, numbers(one, "wait", 60)...)
	tests = append(tests, numbers(one+"/logs", "tailLines", 5000)...)
	tests = append(tests, numbers(one+"/logs", "sinceSeconds", 604800)...)
	for _, bad := range []string{"", "Running", "done", "running,failed", "state(1)"} {
		tests = append(tests, [2]string{"GET " + jobs + "?status=" + bad, "status"})
	}
	for _, bad := range []string{"", "1", "True", "yes"} {
		tests = append(tests, [2]string{"GET " + one + "/events?logs=" + bad, "logs"}, [2]string{"POST /api/v1/system/start?dryRun=" + bad, "dryRun"})
	}
	tests = append(tests, [][2]string{
		{"GET " + jobs + "?Limit=1", "Limit"},
		{"GET " + jobs + "?wait=1", "wait"},
		{"GET " + jobs + "?cursor=", "cursor"},
		{"GET " + jobs + "?cursor=x", "cursor"},
		{"GET " + jobs + "?type=", "type"},
		{"GET " + jobs + "?type=" + strings.Repeat("a", 513), "type"},
		{"GET " + jobs + "?type=%ff", "type"},
		{"GET " + jobs + "?limit=%zz", "query"},
		{"GET " + jobs + "?limit=1;status=running", "query"},
		{"GET " + one + "?limit=1", "limit"},
		{"GET " + one + "/logs?follow=true", "follow"},
		{"GET " + one + "/events?wait=1", "wait"},
		{"POST " + one + "/cancel?force=true", "force"},
		{"POST /api/v1/system/start?timeoutMs=1000", "timeoutMs"},
		{"GET /api/v1/openapi.json?pretty=1", "pretty"},
	}...)
	for _, tt := range tests {
		a := g.ask(t, tt[0], "")
		if a.status != 400 || a.code() != "INVALID_ARGUMENT" || a.detail("field") != tt[1] {
			t.Errorf("%.100s: %d %s", tt[0], a.status, a.body)
		}
	}
}

func TestJ08BadBodiesAreRefusedByField(t *testing.T) {
	s, _, _ := twoScopes()
	g := serve(t, s)
	const start = "POST /api/v1/system/start"
	token, _ := access.NewToken() // one may stand anywhere
	tests := []struct{ what, body, field string }{
		{start, `{"timeoutMs":999}`, "timeoutMs"},
		{start, `{"timeoutMs":86400001}`, "timeoutMs"},
		{start, `{"timeoutMs":-1}`, "timeoutMs"},
		{start, `{"timeoutMs":"1000"}`, "timeoutMs"},
		{start, `{"timeoutMs":1000.5}`, "timeoutMs"},
		{start, `{"dryRun":1}`, "dryRun"},
		{start, `{"dryRun":true,"dryRun":true}`, "dryRun"},
		{start + "?dryRun=true", `{"dryRun":false}`, "dryRun"},
		{start + "?dryRun=false", `{"dryRun":true}`, "dryRun"},
		{start, `{"count":11}`, "count"},
		{start, `{"Count":1}`, "Count"},
		{start, `{"objects":["a",7]}`, "objects"},
		{start, `{"secret":"bft_canary"}`, "secret"},
		{start, `{"` + token + `":1}`, "[redacted]"},
		{start, `[]`, "body"},
		{start, `null`, "body"},
		{start, `{`, "body"},
		{start, strings.Repeat(`{"objects":`, 70), "objects"},
		{"POST /api/v1/system/jobs/job_s/cancel", `{"force":true}`, "force"},
		{"POST /api/v1/system/jobs/job_s/cancel", `[]`, "body"},
	}
	for _, tt := range tests {
		a := g.ask(t, tt.what, tt.body)
		if field, _ := a.detail("field").(string); a.status != 400 || a.code() != "INVALID_ARGUMENT" || !strings.HasPrefix(field, tt.field) || strings.Contains(a.body, token) {
			t.Errorf("%s %.60s: %d %s, want field %s", tt.what, tt.body, a.status, a.body, tt.field)
		}
	}
	for _, tt := range []struct {
		what, body string
		status     int
	}{
		{"POST /api/v1/system/jobs/job_s/cancel", `{"x":"` + strings.Repeat("a", 64<<10) + `"}`, 413},
		{start, `{"objects":["` + strings.Repeat("a", 4<<20) + `"]}`, 413},
		{start, `{"objects":["` + strings.Repeat(`","\u0436`, 500_000) + `"]}`, 413},
		{start, `{"objects":[` + strings.Repeat(`"",`, 100_000) + `""]}`, 413}, // small, but of too many values
	} {
		if a := g.ask(t, tt.what, tt.body); a.status != tt.status || a.code() != "PAYLOAD_TOO_LARGE" {
			t.Errorf("%s of %d bytes: %d %s", tt.what, len(tt.body), a.status, a.body)
		}
	}
	if a := g.ask(t, start, "", "Content-Type", "text/plain"); a.status != 202 {
		t.Errorf("no body has no type: %d %s", a.status, a.body)
	}
	// The largest list that is documented, written as a library that escapes does.
	names := make([]string, 1000)
	for i := range names {
		names[i] = `"` + strings.Repeat(`\u0436`, 512) + `"`
	}
	if a := g.ask(t, start, `{"objects":[`+strings.Join(names, ",\n    ")+`]}`); a.status != 202 {
		t.Errorf("1000 names of 1024 bytes: %d %s", a.status, a.body)
	}
}

func TestJ09UnknownJobsAre404InTheEnvelope(t *testing.T) {
	s, _, _ := twoScopes()
	g := serve(t, s)
	for _, path := range []string{
		"/api/v1/system/jobs/job_none", "/api/v1/system/jobs/job_none?wait=60", "/api/v1/system/jobs/job_none/logs", "/api/v1/system/jobs/job_none/events",
		"/api/v1/system/jobs/-", "/api/v1/system/jobs/" + strings.Repeat("a", 129), "/api/v1/system/jobs/a%2fb", "/api/v1/system/jobs/..", "/api/v1/system/jobs/a%00",
		"/api/v1/system/jobs/", "/api/v1/none/jobs", "/api/v1/", "/api/v1", "/api/v2/system/jobs", "/", "/api/v1/system/jobs/job_s/steps",
	} {
		a := g.ask(t, "GET "+path, "")
		if a.status != 404 || a.code() != "NOT_FOUND" || !strings.HasPrefix(a.body, `{"error":{"code":"NOT_FOUND","message":"`) || !strings.Contains(a.body, `"details":{}`) {
			t.Errorf("GET %s: %d %s", path, a.status, a.body)
		}
	}
}

func TestUnknownRoutesAndMethodsSayWhatThereIs(t *testing.T) {
	s, _, _ := twoScopes()
	s.Scopes = append(s.Scopes, jobapi.Scope{Name: "fleet", Jobs: newFakeJobs(), Cancel: access.Operate})
	g := serve(t, s)
	for what, want := range map[string]string{
		"GET /api/v1/sytem/jobs":           `"No such route; scopes: system, utils, fleet"`,
		"POST /api/v1/system/sart":         `"No such route; scopes: system, utils, fleet; operations of system: drain, start"`,
		"GET /api/v1/fleet/job":            `"No such route; scopes: system, utils, fleet"`,
		"POST /api/v1/fleet/start":         `"No such route; scopes: system, utils, fleet"`,
		"GET /api/v1/utils/purge":          `"No such route; scopes: system, utils, fleet; operations of utils: drain, start"`,
		"GET /api/v1/system/jobs/job_none": "known to the server that runs them, until it restarts",
		"DELETE /api/v1/system/jobs":       `"Method not allowed: this route has GET, HEAD, OPTIONS"`,
		"GET /api/v1/system/start":         `"Method not allowed: this route has POST, OPTIONS"`,
	} {
		if a := g.ask(t, what, ""); a.status != 404 && a.status != 405 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
}

func TestJ10LogIsTheLastLinesAsText(t *testing.T) {
	s, system, _ := twoScopes()
	g := serve(t, s)
	const path = "GET /api/v1/system/jobs/job_s/logs"
	if a := g.ask(t, path, ""); a.status != 200 || a.body != "" || a.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("an empty log: %d %q %v", a.status, a.body, a.header)
	}
	for i := range 300 {
		system.say("job_s", fmt.Sprintf("line %d <b>", i+1))
	}
	if a := g.ask(t, path, ""); strings.Count(a.body, "\n") != 200 || !strings.HasPrefix(a.body, "line 101 <b>\n") || !strings.HasSuffix(a.body, "line 300 <b>\n") {
		t.Errorf("as a rule: %d lines, %.40q", strings.Count(a.body, "\n"), a.body)
	}
	if a := g.ask(t, path+"?tailLines=2", ""); a.body != "line 299 <b>\nline 300 <b>\n" {
		t.Errorf("two lines: %q", a.body)
	}
	system.dropped = 7
	if a := g.ask(t, path+"?tailLines=5000", ""); !strings.HasPrefix(a.body, "[log truncated: 7 lines dropped]\nline 1 ") {
		t.Errorf("a log that has lost lines: %.60q", a.body)
	}
	if a := g.ask(t, path+"?tailLines=300", ""); !strings.HasPrefix(a.body, "[log truncated: 7 lines dropped]\nline 1 ") || strings.Count(a.body, "\n") != 301 {
		t.Errorf("all that is left of it: %.60q, %d lines", a.body, strings.Count(a.body, "\n"))
	}
	for _, query := range []string{"?tailLines=299", "?tailLines=1"} {
		if a := g.ask(t, path+query, ""); !strings.HasPrefix(a.body, "line ") || strings.Contains(a.body, "truncated") {
			t.Errorf("%s, not all that is left of it: %.60q", query, a.body)
		}
	}
	system.mu.Lock()
	system.logs["job_s"] = nil
	system.mu.Unlock()
	if a := g.ask(t, path, ""); a.body != "[log truncated: 7 lines dropped]\n" {
		t.Errorf("all of it was lost: %q", a.body)
	}
}

func TestJ11SinceSecondsGoesByWhenALineWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, system, _ := twoScopes()
		g := serve(t, s)
		for _, text := range []string{"a", "b", "c", "d"} {
			system.say("job_s", text)
			time.Sleep(10 * time.Second)
		}
		for query, want := range map[string]string{"sinceSeconds=20": "c\nd\n", "sinceSeconds=19": "d\n", "sinceSeconds=604800": "a\nb\nc\nd\n", "sinceSeconds=30&tailLines=1": "d\n", "sinceSeconds=1": ""} {
			if a := g.ask(t, "GET /api/v1/system/jobs/job_s/logs?"+query, ""); a.status != 200 || a.body != want {
				t.Errorf("%s: %d %q, want %q", query, a.status, a.body, want)
			}
		}
		g.stop()
	})
}

func TestJ14CancelAnswersHowTheJobEnded(t *testing.T) {
	s, system, _ := twoScopes()
	g := serve(t, s)
	const cancel = "POST /api/v1/system/jobs/job_s/cancel"
	if a := g.ask(t, cancel, "{}"); a.status != 200 || a.body != `{"jobId":"job_s","status":"canceled","canceledAt":"2026-01-23T10:00:00.000Z"}`+"\n" {
		t.Errorf("cancel: %d %s", a.status, a.body)
	}
	if a := g.ask(t, cancel, ""); a.status != 409 || a.code() != "CONFLICT" || a.detail("status") != "canceled" {
		t.Errorf("again: %d %s", a.status, a.body)
	}
	system.put("job_f", "system.fsck", jobs.Failed)
	if a := g.ask(t, "POST /api/v1/system/jobs/job_f/cancel", ""); a.status != 409 || a.detail("status") != "failed" {
		t.Errorf("of a failed job: %d %s", a.status, a.body)
	}
	if a := g.ask(t, "POST /api/v1/system/jobs/job_none/cancel", ""); a.status != 404 {
		t.Errorf("of no job: %d %s", a.status, a.body)
	}
}

func TestJ14CancelWaitsForTheWorker(t *testing.T) {
	tests := []struct {
		name   string
		after  time.Duration // until the worker has heard of it
		ends   jobs.State
		status int
		took   time.Duration
	}{
		{"it hears of it in time", 1500 * time.Millisecond, jobs.Canceled, 200, 1500 * time.Millisecond},
		{"it takes too long", time.Hour, jobs.Canceled, 202, 5 * time.Second},
		{"the job ends before", time.Second, jobs.Succeeded, 409, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				jobsOf := newFakeJobs()
				jobsOf.worker = true
				jobsOf.put("j", "fleet.pdf", jobs.Running)
				g := serve(t, &jobapi.Server{Scopes: []jobapi.Scope{{Name: "fleet", Jobs: jobsOf, Cancel: access.Operate}}})
				end := time.AfterFunc(tt.after, func() { jobsOf.put("j", "fleet.pdf", tt.ends) })
				defer end.Stop()
				began := time.Now()
				a := g.ask(t, "POST /api/v1/fleet/jobs/j/cancel", "")
				if took := time.Since(began); a.status != tt.status || took < tt.took || took > tt.took+400*time.Millisecond {
					t.Errorf("%d after %s, want %d after %s: %s", a.status, took, tt.status, tt.took, a.body)
				}
				if want := `{"jobId":"j","status":"running","canceledAt":null}` + "\n"; tt.status == 202 && a.body != want {
					t.Errorf("%s, want %s", a.body, want)
				}
				g.stop()
			})
		})
	}
}

// struck is a fake that does not answer any more once it was asked to stop a job.
type struck struct{ *fakeJobs }

func (s struck) Cancel(ctx context.Context, id string) (jobapi.Job, error) {
	job, err := s.fakeJobs.Cancel(ctx, id)
	s.fail(jobs.ErrUnavailable)
	return job, err
}

func TestJ14CancelThatCannotWaitForTheWorkerIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobsOf := struck{newFakeJobs()}
		jobsOf.worker = true
		jobsOf.put("j", "fleet.pdf", jobs.Running)
		g := serve(t, &jobapi.Server{Scopes: []jobapi.Scope{{Name: "fleet", Jobs: jobsOf, Cancel: access.Operate}}})
		a := g.ask(t, "POST /api/v1/fleet/jobs/j/cancel", "")
		if want := `{"jobId":"j","status":"running","canceledAt":null}` + "\n"; a.status != 202 || a.body != want {
			t.Errorf("%d %s, want 202 %s", a.status, a.body, want)
		}
		if asked := jobsOf.called("Get"); asked == 0 {
			t.Error("it was not waited for")
		}
		g.stop()
	})
}

func TestJ06CreateAnswersWithTheJobAndItsPlace(t *testing.T) {
	s, _, _ := twoScopes()
	g := serve(t, s)
	for _, body := range []string{"", "{}", `{"timeoutMs":1000}`, `{"timeoutMs":86400000,"count":10,"dryRun":false}`, `{"timeoutMs":null}`} {
		a := g.ask(t, "POST /api/v1/system/start", body)
		if a.status != 202 || a.header.Get("Location") != "/api/v1/system/jobs/job_new" ||
			!strings.HasPrefix(a.body, `{"jobId":"job_new","scope":"system","type":"system.start","status":"queued","createdAt":"`) {
			t.Errorf("%s: %d %s %v", body, a.status, a.body, a.header)
		}
	}
}

func TestJ20NoRoomIsSaidAsTheJobsSayIt(t *testing.T) {
	s, system, utils := twoScopes()
	g := serve(t, s)
	system.full = &jobapi.Refusal{Status: 409, Code: jobapi.CodeConflict, Message: "Another runs", Details: map[string]any{"jobId": "job_s", "stopping": true}}
	utils.full = &jobapi.Refusal{Status: 429, Code: jobapi.CodeRateLimited, Message: "Four run", RetryAfter: 2500 * time.Millisecond}
	if a := g.ask(t, "POST /api/v1/system/start", ""); a.status != 409 || a.detail("jobId") != "job_s" || a.detail("stopping") != true {
		t.Errorf("system: %d %s", a.status, a.body)
	}
	if a := g.ask(t, "POST /api/v1/utils/start", ""); a.status != 429 || a.code() != "RATE_LIMITED" || a.header.Get("Retry-After") != "3" {
		t.Errorf("utils: %d %s %v", a.status, a.body, a.header)
	}
	want := `
# HELP batchfleet_jobapi_rejected_total Jobs not made: conflict is 409, rate_limited 429.
# TYPE batchfleet_jobapi_rejected_total counter
batchfleet_jobapi_rejected_total{reason="conflict",scope="system"} 1
batchfleet_jobapi_rejected_total{reason="rate_limited",scope="utils"} 1
`
	if err := testutil.GatherAndCompare(g.registry, strings.NewReader(want), "batchfleet_jobapi_rejected_total"); err != nil {
		t.Error(err)
	}
}

func TestJ23DryRunMakesNoJob(t *testing.T) {
	s, system, _ := twoScopes()
	g := serve(t, s)
	want := `{"dryRun":true,"scope":"system","type":"system.start","steps":[{"step":"redis","action":"skip","reason":"it answers"},{"step":"topic","action":"run","reason":"makes it"}]}` + "\n"
	for _, tt := range [][2]string{{"?dryRun=true", ""}, {"", `{"dryRun":true}`}, {"?dryRun=true", `{"dryRun":true}`}, {"?dryRun=true", `{"dryRun":null}`}} {
		if a := g.ask(t, "POST /api/v1/system/start"+tt[0], tt[1]); a.status != 200 || a.body != want {
			t.Errorf("%q %s: %d %s", tt[0], tt[1], a.status, a.body)
		}
	}
	if n := len(system.all); n != 1 {
		t.Errorf("there are %d jobs, want the one from before", n)
	}
	if a := g.ask(t, "POST /api/v1/system/start?dryRun=true", `{"count":11}`); a.status != 400 || a.detail("field") != "count" {
		t.Errorf("a plan of what cannot be asked for: %d %s", a.status, a.body)
	}
}

// thinking is a fakeRunner whose plans take until their time is over.
type thinking struct{ *fakeRunner }

func (thinking) Plan(ctx context.Context, _ string, _ jobapi.Request) ([]jobapi.Planned, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestJ23APlanIsWaitedForHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, system, _ := twoScopes()
		s.Scopes[0].Jobs = thinking{system}
		g := serve(t, s)
		began := time.Now()
		a := g.ask(t, "POST /api/v1/system/start?dryRun=true", "")
		if took := time.Since(began); a.status != 503 || a.code() != "UNAVAILABLE" || took != 30*time.Second {
			t.Errorf("%d after %s, want 503 after 30 s: %s", a.status, took, a.body)
		}
		g.stop()
	})
}

func TestJ29HeadersMethodsAndOptions(t *testing.T) {
	s, _, _ := twoScopes()
	g := serve(t, s)
	for what, want := range map[string]struct {
		status int
		allow  string
	}{
		"GET /api/v1/system/jobs":               {200, ""},
		"HEAD /api/v1/system/jobs":              {200, ""},
		"HEAD /api/v1/system/jobs/job_s":        {200, ""},
		"HEAD /api/v1/system/jobs/job_s/events": {200, ""},
		"HEAD /api/v1/system/jobs/none":         {404, ""},
		"POST /api/v1/system/jobs":              {405, "GET, HEAD, OPTIONS"},
		"DELETE /api/v1/system/jobs/job_s":      {405, "GET, HEAD, OPTIONS"},
		"GET /api/v1/system/jobs/job_s/cancel":  {405, "POST, OPTIONS"},
		"GET /api/v1/system/start":              {405, "POST, OPTIONS"},
		"OPTIONS /api/v1/system/jobs":           {204, "GET, HEAD, OPTIONS"},
		"BREW /api/v1/utils/jobs/job_u/logs":    {405, "GET, HEAD, OPTIONS"},
		"GET /api/v1/openapi.json":              {200, ""},
	} {
		a := g.ask(t, what, "")
		if a.status != want.status || a.header.Get("Allow") != want.allow || a.header.Get("Cache-Control") != "no-store" ||
			a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %d %v", what, a.status, a.header)
		}
		if a.status == 405 && a.code() != "METHOD_NOT_ALLOWED" {
			t.Errorf("%s: %s", what, a.body)
		}
	}
}

func TestJ29HeadIsARead(t *testing.T) {
	s, _, _ := twoScopes()
	s.ReadOnly = true
	g := serve(t, s)
	for _, path := range []string{"/api/v1/system/jobs", "/api/v1/system/jobs/job_s", "/api/v1/system/jobs/job_s/logs"} {
		if a := g.ask(t, "HEAD "+path, ""); a.status != 200 {
			t.Errorf("HEAD %s of a server that changes nothing: %d", path, a.status)
		}
	}
	if log := g.logged.String(); strings.Contains(log, "change asked for") {
		t.Errorf("a HEAD is logged as a change: %s", log)
	}
}

// TestJ29OnlyARefusalThatMayHaveLeftABodyEndsTheConnection sends bodies that are
// small: net/http would read these, and let a caller wait for the rest of others.
func TestJ29OnlyARefusalThatMayHaveLeftABodyEndsTheConnection(t *testing.T) {
	s, system, _ := twoScopes()
	g := serve(t, s)
	for _, tt := range []struct {
		what, body string
		full       error
		status     int
		ends       bool
	}{
		{"POST /api/v1/system/none", "{}", nil, 404, true},
		{"POST /api/v1/system/jobs", "{}", nil, 405, true},
		{"POST /api/v1/system/start?limit=1", "{}", nil, 400, true},
		{"POST /api/v1/system/start", "{", nil, 400, true},
		{"POST /api/v1/system/none", "", nil, 404, false},
		{"GET /api/v1/system/jobs/none", "", nil, 404, false},
		{"POST /api/v1/system/start", "{}", &jobapi.Refusal{Status: 409, Code: jobapi.CodeConflict}, 409, false},
		{"POST /api/v1/system/start", "{}", &jobapi.Refusal{Status: 429, Code: jobapi.CodeRateLimited}, 429, false},
		{"POST /api/v1/system/start", "{}", nil, 202, false},
	} {
		system.full = tt.full
		resp := g.open(t, tt.what, tt.body)
		if _ = resp.Body.Close(); resp.StatusCode != tt.status || resp.Close != tt.ends {
			t.Errorf("%s %q: %d, and it ends the connection: %t; want %d, %t", tt.what, tt.body, resp.StatusCode, resp.Close, tt.status, tt.ends)
		}
	}
}

// TestJ29AdmitDecidesFirst has each request refused before anything looks at it.
func TestJ29AdmitDecidesFirst(t *testing.T) {
	for status, code := range map[int]string{403: "FORBIDDEN", 503: "UNAVAILABLE", 500: "INTERNAL", 418: "INTERNAL"} {
		s, system, _ := twoScopes()
		s.Admit = func(*http.Request) error { return &httpd.StatusError{Status: status, Err: errors.New("not now")} }
		g := serve(t, s)
		a := g.ask(t, "GET /api/v1/system/jobs", "")
		if a.code() != code || (a.header.Get("Retry-After") == "5") != (status == 503) || system.called("List") != 0 {
			t.Errorf("%d: %d %s, Retry-After %q", status, a.status, a.body, a.header.Get("Retry-After"))
		}
	}
}

// stalled is a body that never ends.
type stalled struct{ done <-chan struct{} }

func (s stalled) Read([]byte) (int, error) { <-s.done; return 0, io.EOF }

func TestJ09BodiesThatCannotBeReadHaveTheirOwnCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, system, _ := twoScopes()
		g := serve(t, s)
		for _, header := range [][]string{{"Content-Type", "text/plain"}, {"Content-Encoding", "gzip"}} {
			if a := g.ask(t, "POST /api/v1/system/start", `{}`, header...); a.status != 415 || a.code() != "UNSUPPORTED_MEDIA_TYPE" {
				t.Errorf("%s: %d %s", header, a.status, a.body)
			}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/v1/system/start", stalled{t.Context().Done()})
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := g.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if a := (reply{resp.StatusCode, resp.Header, string(body)}); err != nil || a.status != 408 || a.code() != "REQUEST_TIMEOUT" {
			t.Errorf("a body that does not come: %d %s, %v", a.status, a.body, err)
		}
		if n := len(system.all); n != 1 {
			t.Errorf("there are %d jobs, want the one from before", n)
		}
		g.stop()
	})
}

func TestJ25DetailsThatAreNoJSONAreLeftOut(t *testing.T) {
	s, system, _ := twoScopes()
	g := serve(t, s)
	system.full = &jobapi.Refusal{Status: 409, Code: jobapi.CodeConflict, Message: "Another runs", Details: map[string]any{"f": func() {}}}
	if a := g.ask(t, "POST /api/v1/system/start", ""); a.status != 409 || a.body != `{"error":{"code":"CONFLICT","message":"Another runs","details":{}}}`+"\n" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestReadOnlyServersChangeNothing(t *testing.T) {
	s, system, _ := twoScopes()
	s.ReadOnly = true
	g := serve(t, s)
	for _, what := range []string{"POST /api/v1/system/start", "POST /api/v1/system/start?dryRun=true", "POST /api/v1/system/jobs/job_s/cancel"} {
		if a := g.ask(t, what, ""); a.status != 403 || a.code() != "READ_ONLY" {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	if a := g.ask(t, "GET /api/v1/system/jobs/job_s", ""); a.status != 200 {
		t.Errorf("GET: %d %s", a.status, a.body)
	}
	if len(system.all) != 1 || system.called("Cancel") != 0 {
		t.Error("something was changed")
	}
}

func TestTroubleIsToldWithoutInsides(t *testing.T) {
	s, system, _ := twoScopes()
	g := serve(t, s)
	const canary = "bft_canarycanarycanary"
	routes := []string{"GET /api/v1/system/jobs", "GET /api/v1/system/jobs/job_s", "GET /api/v1/system/jobs/job_s/logs", "GET /api/v1/system/jobs/job_s/events", "POST /api/v1/system/jobs/job_s/cancel"}
	for _, tt := range []struct {
		name   string
		err    error
		status int
	}{
		{"the store is away", fmt.Errorf("redis://:%s@r: %w", canary, jobs.ErrUnavailable), 503},
		{"something unknown", errors.New(canary), 500},
	} {
		system.fail(tt.err)
		for _, what := range routes {
			a := g.ask(t, what, "")
			if a.status != tt.status || strings.Contains(a.body, canary) {
				t.Errorf("%s: %s: %d %s", tt.name, what, a.status, a.body)
			}
			if tt.status == 503 && (a.header.Get("Retry-After") != "5" || a.code() != "UNAVAILABLE") {
				t.Errorf("%s: %s: %v %s", tt.name, what, a.header, a.body)
			}
		}
	}
	system.fail(nil)
	system.panics = true
	for _, what := range []string{"GET /api/v1/system/jobs", "GET /api/v1/system/jobs/job_s"} {
		if a := g.ask(t, what, ""); a.status != 500 || a.code() != "INTERNAL" || strings.Contains(a.body, "fake") {
			t.Errorf("%s of jobs that panic: %d %s", what, a.status, a.body)
		}
	}
}

func TestSecretsInRefusedRequestsGoNowhere(t *testing.T) {
	const canary = "canaryCANARYcanaryCANARYcanaryCANARYcanary9"
	s, _, _ := twoScopes()
	s.Guard = guarded(t, "admin-token-of-the-test")
	g := serve(t, s)
	for _, tt := range [][]string{
		{"GET /api/v1/system/jobs?limit=" + canary, ""},
		{"GET /api/v1/system/jobs?status=" + canary, ""},
		{"GET /api/v1/system/jobs?cursor=" + canary, ""},
		{"GET /api/v1/system/jobs?token=" + canary, ""},
		{"GET /api/v1/system/jobs/" + canary, ""},
		{"GET /api/v1/system/" + canary, ""},
		{"POST /api/v1/system/start", `{"token":"` + canary + `"}`},
		{"POST /api/v1/system/start", `{"count":"` + canary + `"}`},
		{"POST /api/v1/system/start", `{"count":` + canary + `}`},
		{"POST /api/v1/system/start", canary},
		{"GET /api/v1/system/jobs", "", "Authorization", "Bearer " + canary},
		{"GET /api/v1/system/jobs", "", "Authorization", canary},
		{"GET /api/v1/system/jobs/job_s/events", "", "Last-Event-ID", canary, "Authorization", "Basic " + canary},
	} {
		header := tt[2:]
		if len(header) == 0 {
			header = []string{"Authorization", "Bearer admin-token-of-the-test"}
		}
		a := g.ask(t, tt[0], tt[1], header...)
		if a.status < 400 || strings.Contains(a.body+fmt.Sprint(a.header), canary) {
			t.Errorf("%q: %d %s %v", tt, a.status, a.body, a.header)
		}
	}
	if strings.Contains(g.logged.String(), canary) {
		t.Errorf("logged: %s", g.logged.String())
	}
	families, err := g.registry.Gather()
	if err != nil || strings.Contains(fmt.Sprint(families), canary) {
		t.Errorf("metrics: %v, %v", families, err)
	}
}

func TestJ30RequestsAreCountedByRouteAndStatus(t *testing.T) {
	s, _, _ := twoScopes()
	g := serve(t, s)
	g.ask(t, "GET /api/v1/system/jobs/job_s", "")
	g.ask(t, "GET /api/v1/system/jobs/none", "")
	g.ask(t, "BREW /whatever/the/caller/likes", "")
	want := `
# HELP batchfleet_jobapi_http_requests_total Requests answered, by route and status; route none is no route of the API.
# TYPE batchfleet_jobapi_http_requests_total counter
batchfleet_jobapi_http_requests_total{method="GET",route="/api/v1/system/jobs/{jobId}",status="200"} 1
batchfleet_jobapi_http_requests_total{method="GET",route="/api/v1/system/jobs/{jobId}",status="404"} 1
batchfleet_jobapi_http_requests_total{method="any",route="none",status="404"} 1
`
	if err := testutil.GatherAndCompare(g.registry, strings.NewReader(want), "batchfleet_jobapi_http_requests_total"); err != nil {
		t.Error(err)
	}
}

func TestRoutesAreListed(t *testing.T) {
	s, _, _ := twoScopes()
	s.Scopes = s.Scopes[:1]
	want := []string{
		"GET /api/v1/system/jobs", "GET /api/v1/system/jobs/{jobId}", "GET /api/v1/system/jobs/{jobId}/logs", "GET /api/v1/system/jobs/{jobId}/events",
		"POST /api/v1/system/jobs/{jobId}/cancel", "POST /api/v1/system/drain", "POST /api/v1/system/start",
		"GET /api/v1/scopes", "GET /api/v1/whoami", "GET /api/v1/tokens", "GET /api/v1/audit", "GET /api/v1/openapi.json",
	}
	if diff := cmp.Diff(want, s.Routes()); diff != "" {
		t.Error(diff)
	}
}

func TestJ27AnErrorNamesAFieldWithoutItsSecret(t *testing.T) {
	s, _, _ := twoScopes()
	g := serve(t, s)
	const canary = "bft_canarycanarycanarycanarycanarycanarycanary0"
	for _, what := range []string{"POST /api/v1/system/start", "POST /api/v1/system/jobs/job_s/cancel"} {
		if a := g.ask(t, what, `{"`+canary+`":1}`); a.status != 400 || strings.Contains(a.body, canary) {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
		// All of its words must be known before it is shortened.
		if a := g.ask(t, what, `{"`+strings.Repeat("abandon ", 11)+`about":1}`); a.status != 400 || a.detail("field") != `"[redacted]"` || strings.Contains(a.body, "abandon") {
			t.Errorf("%s with a mnemonic: %d %s", what, a.status, a.body)
		}
	}
	// Of a parameter only the beginning is shown, which may be of a secret, too.
	if a := g.ask(t, "GET /api/v1/system/jobs?"+canary+"=1", ""); a.status != 400 || strings.Contains(a.body, canary[:20]) {
		t.Errorf("a parameter: %d %s", a.status, a.body)
	}
}

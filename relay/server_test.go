package relay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// viewOf returns the task in an answer, which has the fields of the contract and no others.
func viewOf(t *testing.T, resp response) view {
	t.Helper()
	var fields map[string]json.RawMessage
	var v view
	if err := json.Unmarshal([]byte(resp.Body), &fields); err != nil {
		t.Fatalf("%d %s", resp.Status, resp.Body)
	}
	if err := json.Unmarshal([]byte(resp.Body), &v); err != nil {
		t.Fatalf("%d %s", resp.Status, resp.Body)
	}
	for _, name := range []string{"task_id", "job_id", "kind", "status", "progress", "artifacts", "error"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("field %s is missing: %s", name, resp.Body)
		}
	}
	if len(fields) != 7 || string(fields["artifacts"]) == "null" {
		t.Errorf("the fields are not those of the contract: %s", resp.Body)
	}
	return v
}

func TestR11ATaskIsShownThroughItsLife(t *testing.T) {
	r := newRig(t)
	id := r.create("")
	get := func() view {
		t.Helper()
		return viewOf(t, r.call(http.MethodGet, "/v1/tasks/"+string(id), ""))
	}
	if v := get(); v.State != Queued || v.Progress != 0 || len(v.Artifacts) != 0 || v.Error != nil || v.ID != id || v.JobID != "job_123" || v.Kind != "music" {
		t.Errorf("queued: %+v", v)
	}
	h := r.start()
	last := 0.0
	for _, p := range []jobs.Progress{{Done: 1, Total: 4}, {Done: 55, Total: 100}, {Done: 1, Total: 100}, {}, {Done: -5, Total: 10}, {Done: 9, Total: 3}, {Done: 100, Total: 100}} {
		h.report(p)
		v := get()
		if v.State != Running || v.Progress < last || v.Progress >= 1 || len(v.Artifacts) != 0 {
			t.Errorf("%+v after %v: %+v", p, last, v)
		}
		last = v.Progress
	}
	h.make("a.txt", "hello")
	if v := get(); len(v.Artifacts) != 0 {
		t.Errorf("artifacts of a running task: %+v", v)
	}
	h.succeed()
	v := get()
	const hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	if v.State != Succeeded || v.Progress != 1 || v.Error != nil || len(v.Artifacts) != 1 || v.Artifacts[0] != (Artifact{"a.txt", "text/plain; charset=utf-8", 5, hello}) {
		t.Errorf("succeeded: %+v", v)
	}
	id = r.create("")
	r.start().end(jobs.Outcome{State: jobs.Failed, Code: "PROGRAM_FAILED", Reason: "exit 3: no such model"})
	if v := get(); v.State != Failed || v.Error == nil || *v.Error != (Error{"EXEC_FAILED", "exit 3: no such model"}) {
		t.Errorf("failed: %+v, %v", v, v.Error)
	}
}

func TestR11WhatIsNotThereIsNotFound(t *testing.T) {
	r := newRig(t)
	id := string(r.create(""))
	other := string(newID(time.Now()))
	for _, path := range []string{
		other, "unknown", strings.ToLower(id), id + "x", id[:len(id)-1], id + "%00", id + "%2f", "..%2f" + id, "%2e%2e", "_quarantine", "task_" + strings.Repeat("I", 26), strings.Repeat("x", 2000), id + "/", id + "/artifacts", id + "/artifacts/",
	} {
		resp := r.call(http.MethodGet, "/v1/tasks/"+path, "")
		if resp.Status != http.StatusNotFound || resp.code() != "NOT_FOUND" || len(resp.Body) > 300 {
			t.Errorf("%.80s: %d %s", path, resp.Status, resp.Body)
		}
	}
	for _, action := range []string{"callback", "cancel", "retry-upload"} {
		for _, id := range []string{other, "unknown"} {
			body := ""
			if action == "callback" {
				body = `{"callback_url":"https://example.com/"}`
				r.Callbacks.Hosts = []string{"example.com"}
			}
			if resp := r.call(http.MethodPost, "/v1/tasks/"+id+"/"+action, body); resp.Status != http.StatusNotFound || resp.code() != "NOT_FOUND" {
				t.Errorf("%s of %s: %d %s", action, id, resp.Status, resp.Body)
			}
		}
	}
	for _, route := range []string{"DELETE /v1/tasks/" + id, "GET /v1/gc", "PUT /v1/tasks", "POST /v1/status", "GET /v1/tasks/" + id + "/cancel"} {
		method, path, _ := strings.Cut(route, " ")
		if resp := r.call(method, path, ""); resp.Status != http.StatusMethodNotAllowed || resp.code() != "METHOD_NOT_ALLOWED" {
			t.Errorf("%s: %d %s", route, resp.Status, resp.Body)
		}
	}
}

func TestR11ETagsFollowWhatIsShown(t *testing.T) {
	r := newRig(t)
	path := "/v1/tasks/" + string(r.create(""))
	first := r.call(http.MethodGet, path, "")
	tag := first.Header.Get("ETag")
	if !strings.HasPrefix(tag, `"`) || len(tag) != 34 {
		t.Errorf("ETag %s", tag)
	}
	if resp := r.call(http.MethodGet, path, "", "If-None-Match", tag); resp.Status != http.StatusNotModified || resp.Body != "" || resp.Header.Get("ETag") != tag {
		t.Errorf("the same: %d %s", resp.Status, resp.Body)
	}
	h := r.start()
	resp := r.call(http.MethodGet, path, "", "If-None-Match", tag)
	if resp.Status != http.StatusOK || resp.Header.Get("ETag") == tag || viewOf(t, resp).State != Running {
		t.Errorf("started: %d %s", resp.Status, resp.Body)
	}
	tag = resp.Header.Get("ETag")
	h.report(jobs.Progress{Message: "not shown"})
	if resp := r.call(http.MethodGet, path, "", "If-None-Match", tag); resp.Status != http.StatusNotModified {
		t.Errorf("nothing that is shown has changed: %d %s", resp.Status, resp.Body)
	}
}

// wait makes a request that waits, in a bubble, and returns how it was answered and after how long.
func (r *rig) wait(id jobs.ID, header http.Header, meanwhile func()) (resp response, took time.Duration) {
	header.Set(TokenHeader, testToken)
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		resp = r.serve("127.0.0.1:1", http.MethodGet, "/v1/tasks/"+string(id), nil, header)
	}()
	synctest.Wait()
	if meanwhile != nil {
		meanwhile()
	}
	<-done
	return resp, time.Since(began)
}

func TestR11ACallerCanWaitForTheNextChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, testrun.MemoryDir(t)).alone()
		create := func() jobs.ID {
			task, _, err := r.Relay.create(&request{JobID: "a", Kind: "music"}, "")
			if err != nil {
				t.Fatal(err)
			}
			return task.ID
		}
		id := create()
		for prefer, want := range map[string]time.Duration{
			"wait=5": 5 * time.Second, "Wait = 7": 7 * time.Second, "respond-async, wait=3": 3 * time.Second, "wait=99": 30 * time.Second,
			"wait=0": 0, "wait=-1": 0, "wait=x": 0, "wait": 0, "wait=99999999999999999999": 0, "": 0, "waits=5": 0,
		} {
			resp, took := r.wait(id, http.Header{"Prefer": {prefer}}, nil)
			if took != want || resp.Status != http.StatusOK {
				t.Errorf("Prefer: %s: answered after %v, want %v: %d %s", prefer, took, want, resp.Status, resp.Body)
			}
			tag := resp.Header.Get("ETag")
			if resp, took := r.wait(id, http.Header{"Prefer": {prefer}, "If-None-Match": {tag}}, nil); took != want || resp.Status != http.StatusNotModified {
				t.Errorf("Prefer: %s with the tag: answered after %v, want %v: %d %s", prefer, took, want, resp.Status, resp.Body)
			}
		}
		// Another task changes nothing; this one ends the wait.
		var h *hand
		resp, took := r.wait(id, http.Header{"Prefer": {"wait=20"}}, func() {
			time.Sleep(2 * time.Second)
			create()
			time.Sleep(2 * time.Second)
			h = r.start()
		})
		if took != 4*time.Second || viewOf(t, resp).State != Running {
			t.Errorf("started: answered after %v: %s", took, resp.Body)
		}
		if resp, took := r.wait(id, http.Header{"Prefer": {"wait=20"}, "If-None-Match": {`"another"`}}, nil); took != 0 || resp.Status != http.StatusOK {
			t.Errorf("with another tag: answered after %v", took)
		}
		resp, took = r.wait(id, http.Header{"Prefer": {"wait=20"}}, func() {
			time.Sleep(time.Second)
			h.end(jobs.Outcome{State: jobs.Failed, Reason: "x"})
		})
		if took != time.Second || viewOf(t, resp).State != Failed {
			t.Errorf("failed: answered after %v: %s", took, resp.Body)
		}
		if _, took := r.wait(id, http.Header{"Prefer": {"wait=20"}, "If-None-Match": {resp.Header.Get("ETag")}}, nil); took != 0 {
			t.Errorf("a task that has ended was waited for: %v", took)
		}
	})
}

func TestR13ACallbackIsRegisteredAndReplaced(t *testing.T) {
	r := setup(t, testrun.MemoryDir(t))
	r.Callbacks = egress.Policy{Hosts: []string{"*.example.com"}}
	r.open()
	id := r.create(`{"job_id":"a","kind":"music","callback_url":"https://orchestrator.example.com/first"}`)
	path := "/v1/tasks/" + string(id) + "/callback"
	all := `"queued","running","uploading","succeeded","failed","canceled"`
	if c := r.onDisk(id).Callback; c.URL != "https://orchestrator.example.com/first" || !slices.Equal(c.Events, allEvents) {
		t.Errorf("created with %+v", c)
	}
	for _, tt := range []struct{ name, events, want string }{
		{"the seed's", `,"events":["queued","running","succeeded","failed"]`, `"queued","running","succeeded","failed"`},
		{"none named", ``, all},
		{"null", `,"events":null`, all},
		{"progress", `,"events":["progress"]`, `"progress"`},
		{"every one", `,"events":["progress",` + all + `]`, `"progress",` + all},
	} {
		resp := r.call(http.MethodPost, path, `{"callback_url":"https://orchestrator.example.com/events?a=b"`+tt.events+`}`)
		want := fmt.Sprintf(`{"task_id":%q,"callback_url":"https://orchestrator.example.com/events?a=b","events":[%s]}`, id, tt.want)
		if resp.Status != http.StatusOK || strings.TrimSpace(resp.Body) != want {
			t.Errorf("%s: %d %s want %s", tt.name, resp.Status, resp.Body, want)
		}
		stored, err := json.Marshal(r.onDisk(id).Callback.Events)
		if err != nil || string(stored) != "["+tt.want+"]" {
			t.Errorf("%s: on disk %s, %v", tt.name, stored, err)
		}
	}
	before := r.onDisk(id).Callback
	for _, tt := range []struct{ name, body, field string }{
		{"no url", `{"events":["queued"]}`, "callback_url"},
		{"url null", `{"callback_url":null}`, "callback_url"},
		{"empty list", `{"callback_url":"https://a.example.com/","events":[]}`, "events"},
		{"unknown", `{"callback_url":"https://a.example.com/","events":["queued","done"]}`, "events[1]"},
		{"empty", `{"callback_url":"https://a.example.com/","events":[""]}`, "events[0]"},
		{"twice", `{"callback_url":"https://a.example.com/","events":["queued","queued"]}`, "events[1]"},
		{"too many", `{"callback_url":"https://a.example.com/","events":[` + strings.Repeat(`"queued",`, 7) + `"queued"]}`, "events"},
		{"text", `{"callback_url":"https://a.example.com/","events":"queued"}`, "events"},
		{"another host", `{"callback_url":"https://example.org/"}`, "callback_url"},
		{"http", `{"callback_url":"http://a.example.com/"}`, "callback_url"},
		{"user", `{"callback_url":"https://a:canary@a.example.com/"}`, "callback_url"},
		{"unknown field", `{"callback_url":"https://a.example.com/","secret":"canary"}`, "secret"},
	} {
		resp := r.call(http.MethodPost, path, tt.body)
		if resp.Status != http.StatusBadRequest || resp.code() != "INVALID_ARGUMENT" || resp.field() != tt.field || strings.Contains(resp.Body, "canary") {
			t.Errorf("%s: %d, field %q, want %q: %s", tt.name, resp.Status, resp.field(), tt.field, resp.Body)
		}
	}
	if after := r.onDisk(id).Callback; after.URL != before.URL || !slices.Equal(after.Events, before.Events) {
		t.Errorf("bad requests changed %+v to %+v", before, after)
	}
}

func TestR14ATaskThatHasEndedTellsItOnce(t *testing.T) {
	r := setup(t, testrun.MemoryDir(t))
	r.Callbacks = egress.Policy{Hosts: []string{"example.com"}}
	r.open()
	id := r.succeeded("a.txt", "x")
	register := func(events string) []string {
		t.Helper()
		if resp := r.call(http.MethodPost, "/v1/tasks/"+string(id)+"/callback", `{"callback_url":"https://example.com/","events":[`+events+`]}`); resp.Status != http.StatusOK {
			t.Fatalf("%d %s", resp.Status, resp.Body)
		}
		var names []string
		for _, e := range r.onDisk(id).Events {
			names = append(names, e.Name)
		}
		return names
	}
	if got := register(`"queued","failed"`); len(got) != 0 {
		t.Errorf("an end that was not asked for is told: %v", got)
	}
	for range 2 { // the second time the event still waits
		if got := register(`"queued","succeeded"`); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("events that wait: %v", got)
		}
	}
	if e := r.onDisk(id).Events[0]; e.State != Succeeded || e.Progress != 1 || !e.At.Equal(r.task(id).FinishedAt) || e.Sequence != r.task(id).Sequence {
		t.Errorf("%+v", e)
	}
}

func TestR15CancelDependsOnTheState(t *testing.T) {
	r := newRig(t)
	cancel := func(id jobs.ID) response {
		t.Helper()
		return r.call(http.MethodPost, "/v1/tasks/"+string(id)+"/cancel", "")
	}
	check := func(what string, id jobs.ID, status int, state State) {
		t.Helper()
		resp := cancel(id)
		if resp.Status != status || r.task(id).State != state {
			t.Errorf("%s: %d %s, and it is %s", what, resp.Status, resp.Body, r.task(id).State)
		}
		if status == http.StatusConflict {
			if resp.code() != "CONFLICT" {
				t.Errorf("%s: %s", what, resp.Body)
			}
		} else if v := viewOf(t, resp); v.State != state {
			t.Errorf("%s: it is told %s", what, resp.Body)
		}
	}
	id := r.create("")
	check("queued", id, http.StatusOK, Canceled)
	check("canceled", id, http.StatusConflict, Canceled)
	running := r.create("")
	h := r.start()
	for range 2 {
		check("running", running, http.StatusAccepted, Running)
	}
	if err := r.status.Report(t.Context(), h.claim, time.Hour, nil, jobs.Lines{}); err == nil {
		t.Error("its program is not told")
	}
	h.end(jobs.Outcome{State: jobs.Canceled})
	check("stopped", running, http.StatusConflict, Canceled)
	check("succeeded", r.succeeded("a.txt", "x"), http.StatusConflict, Succeeded)
	failed := r.create("")
	r.start().end(jobs.Outcome{State: jobs.Failed, Reason: "x"})
	check("failed", failed, http.StatusConflict, Failed)

	r = setup(t, testrun.MemoryDir(t))
	r.Orchestrator = &url.URL{Scheme: "https", Host: "orchestrator.example.com"} // nothing is sent: no delivery runs
	r.open()
	uploading := r.succeeded("a.txt", "x")
	r.sending(uploading)
	for range 2 {
		check("uploading", uploading, http.StatusAccepted, Uploading)
	}
	if !r.onDisk(uploading).CancelRequested {
		t.Error("the next relay would not know")
	}
	// A task of the same job is another task.
	a, b := r.create(""), r.create("")
	check("the second of two", b, http.StatusOK, Canceled)
	if r.task(a).State != Queued {
		t.Errorf("the first is %s", r.task(a).State)
	}
}

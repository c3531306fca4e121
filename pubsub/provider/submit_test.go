package provider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
)

const kindsFile = `
[thumbnail]
command = ["pdftoppm", "-r", "{params.dpi}", "{input}", "{output}/page"]
[thumbnail.params.dpi]
type = "integer"
default = 60
min = 10
max = 600

[merge]
command = ["merge", "{input}", "{output}/all.pdf"]

[label]
command = ["label", "--file={input}"]

[report]
command = ["report", "{params.month}"]
[report.params.month]
type = "string"
required = true
`

// submitRig is a fleet to which jobs are given, and what it has published.
type submitRig struct {
	*fleetRig
	store storage.Store
	mu    sync.Mutex
	sent  []jobs.Job
	fails error // of publishing
}

func newSubmitRig(t *testing.T) *submitRig {
	t.Helper()
	r := &submitRig{fleetRig: newFleetRig(t)}
	var err error
	if r.store, err = storage.NewLocal(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	set, err := kinds.Parse("kinds.toml", []byte(kindsFile))
	if err != nil {
		t.Fatal(err)
	}
	r.fleet.KindsFile = func() *kinds.Set { return set }
	r.fleet.Storage = func(context.Context) (storage.Store, error) { return r.store, nil }
	r.fleet.Publish = func(_ context.Context, job jobs.Job) (string, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.fails != nil {
			return "", r.fails
		}
		r.sent = append(r.sent, job)
		return "1", nil
	}
	for _, name := range []string{"uploads/a.pdf", "uploads/b.pdf"} {
		if err := r.store.Put(t.Context(), name, strings.NewReader("%PDF")); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *submitRig) give(s jobapi.Submission) (jobapi.Job, bool) {
	r.Helper()
	j, repeated, err := r.fleet.Submit(r.Context(), s)
	if err != nil {
		r.Fatalf("submit %+v: %v", s, err)
	}
	return j, repeated
}

func TestK19AJobOfAnyKindIsSubmittedWithItsParamsAndItsInput(t *testing.T) {
	r := newSubmitRig(t)
	for _, tt := range []struct {
		name   string
		give   jobapi.Submission
		params string
	}{
		{"params and input", jobapi.Submission{Kind: "thumbnail", Params: json.RawMessage(`{"dpi": 300}`), Input: "uploads/a.pdf"}, `{"dpi":300}`},
		{"a default", jobapi.Submission{Kind: "thumbnail", Input: "uploads/a.pdf"}, `{"dpi":60}`},
		{"no input", jobapi.Submission{Kind: "report", Params: json.RawMessage(`{"month":"2026-11"}`)}, `{"month":"2026-11"}`},
		{"an id of the sender", jobapi.Submission{Kind: "report", Params: json.RawMessage(`{"month":"2026-12"}`), ID: "report-12"}, `{"month":"2026-12"}`},
		{"a document", jobapi.Submission{Kind: "pdf", Input: "uploads/a.pdf"}, ""},
		{"a simulated one", jobapi.Submission{Kind: "mock"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.sent = nil
			j, repeated := r.give(tt.give)
			if repeated || j.Status != jobs.Queued || j.Type != "fleet."+tt.give.Kind || tt.give.ID != "" && j.ID != tt.give.ID {
				t.Errorf("job %+v, repeated %t", j, repeated)
			}
			if len(r.sent) != 1 || r.sent[0].Payload != tt.params || r.sent[0].Input != tt.give.Input || string(r.sent[0].ID) != j.ID {
				t.Errorf("published %+v, want params %s", r.sent, tt.params)
			}
		})
	}
}

// field returns which field an error is about.
func field(err error) string {
	if e, ok := errors.AsType[*jobapi.FieldError](err); ok {
		return e.Field
	}
	if e, ok := errors.AsType[*jobapi.Refusal](err); ok {
		return fmt.Sprint(e.Details["field"])
	}
	return ""
}

func TestK03ParamsAreCheckedBeforeAnythingIsQueued(t *testing.T) {
	r := newSubmitRig(t)
	for _, tt := range []struct {
		name string
		give jobapi.Submission
		is   string // the field
	}{
		{"a param out of its range", jobapi.Submission{Kind: "thumbnail", Params: json.RawMessage(`{"dpi":7}`), Input: "uploads/a.pdf"}, "params.dpi"},
		{"a param of another type", jobapi.Submission{Kind: "thumbnail", Params: json.RawMessage(`{"dpi":"300"}`), Input: "uploads/a.pdf"}, "params.dpi"},
		{"a param that there is none of", jobapi.Submission{Kind: "thumbnail", Params: json.RawMessage(`{"dip":300}`), Input: "uploads/a.pdf"}, "params.dip"},
		{"a param that is missing", jobapi.Submission{Kind: "report"}, "params.month"},
		{"params that are a list", jobapi.Submission{Kind: "report", Params: json.RawMessage(`["x"]`)}, "params"},
		{"params of a document", jobapi.Submission{Kind: "pdf", Params: json.RawMessage(`{"dpi":7}`), Input: "uploads/a.pdf"}, "params"},
		{"no input where the command names one", jobapi.Submission{Kind: "thumbnail"}, "input"},
		{"an input that is not there", jobapi.Submission{Kind: "thumbnail", Input: "uploads/none.pdf"}, "input"},
		{"an input that is no name", jobapi.Submission{Kind: "thumbnail", Input: "../x"}, "input"},
		{"a document without input", jobapi.Submission{Kind: "pdf"}, "input"},
		{"a kind that there is none of", jobapi.Submission{Kind: "thumb"}, "kind"},
		{"a kind of the gateway", jobapi.Submission{Kind: "zpe"}, "kind"},
		{"a kind that is no name", jobapi.Submission{Kind: "Thumb nail"}, "kind"},
		{"an id that is none", jobapi.Submission{Kind: "mock", ID: "a/b"}, "id"},
		{"a key with a blank", jobapi.Submission{Kind: "mock", Key: "a b"}, "Idempotency-Key"},
		{"a key that is too long", jobapi.Submission{Kind: "mock", Key: strings.Repeat("k", 256)}, "Idempotency-Key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := r.fleet.Submit(t.Context(), tt.give); field(err) != tt.is {
				t.Errorf("error %v is about %q, want %q", err, field(err), tt.is)
			}
		})
	}
	if page, err := r.fleet.List(t.Context(), jobapi.Query{Limit: 10}); err != nil || len(page.Items) > 0 || len(r.sent) > 0 {
		t.Errorf("%d jobs are there, %d published, %v; want none", len(page.Items), len(r.sent), err)
	}
}

func TestK19AKindOfALiveWorkerNeedsNoKindsFile(t *testing.T) {
	r := newSubmitRig(t)
	member := r.st.Member(status.Worker{ID: "w1", Name: "w1", Kinds: []jobs.Kind{"resize"}, Slots: 1})
	if err := member.Pulse(t.Context(), 0, false, ""); err != nil {
		t.Fatal(err)
	}
	r.give(jobapi.Submission{Kind: "resize", Params: json.RawMessage(`{"width":7}`)})
	if len(r.sent) != 1 || r.sent[0].Payload != `{"width":7}` {
		t.Errorf("published %+v", r.sent)
	}
	if _, _, err := r.fleet.Submit(t.Context(), jobapi.Submission{Kind: "resize", Params: json.RawMessage(`"x"`)}); field(err) != "params" {
		t.Errorf("params that are no object: %v", err)
	}
}

func TestK19AnIDThatIsInUseIsRefused(t *testing.T) {
	r := newSubmitRig(t)
	want := func(id string, state jobs.State) {
		t.Helper()
		before := len(r.sent)
		_, _, err := r.fleet.Submit(t.Context(), jobapi.Submission{Kind: "mock", ID: id})
		refused, ok := errors.AsType[*jobapi.Refusal](err)
		if !ok || refused.Status != http.StatusConflict || refused.Details["status"] != state.String() || len(r.sent) != before {
			t.Errorf("of a job that is %s: %v, published %d", state, err, len(r.sent)-before)
		}
	}
	r.give(jobapi.Submission{Kind: "mock", ID: "mine"})
	want("mine", jobs.Queued)
	c := r.claim(r.sent[0])
	want("mine", jobs.Running)
	r.finish(c, jobs.Outcome{State: jobs.Failed, Reason: "no luck"})
	want("mine", jobs.Failed)
	// Redis has forgotten it, and its result is stored still: it would be taken for that of the new job.
	if err := r.store.Put(t.Context(), artifact.ResultName("old"), strings.NewReader("{}")); err != nil {
		t.Fatal(err)
	}
	want("old", jobs.Succeeded)
}

func TestK19TheSameKeyIsTheSameJob(t *testing.T) {
	r := newSubmitRig(t)
	first := jobapi.Submission{Kind: "thumbnail", Params: json.RawMessage(`{"dpi":300}`), Input: "uploads/a.pdf", Key: "nightly"}
	made, _ := r.give(first)
	same := first
	same.Params = json.RawMessage("{ \"dpi\" :\n300 }")
	for range 2 {
		if j, repeated := r.give(same); j.ID != made.ID || !repeated || len(r.sent) != 1 {
			t.Errorf("again: job %s, repeated %t, published %d; want %s once", j.ID, repeated, len(r.sent), made.ID)
		}
	}
	for name, other := range map[string]jobapi.Submission{
		"another kind":  {Kind: "mock", Key: "nightly"},
		"other params":  {Kind: "thumbnail", Params: json.RawMessage(`{"dpi":301}`), Input: "uploads/a.pdf", Key: "nightly"},
		"no params":     {Kind: "thumbnail", Input: "uploads/a.pdf", Key: "nightly"},
		"another input": {Kind: "thumbnail", Params: json.RawMessage(`{"dpi":300}`), Input: "uploads/b.pdf", Key: "nightly"},
	} {
		_, _, err := r.fleet.Submit(t.Context(), other)
		if refused, ok := errors.AsType[*jobapi.Refusal](err); !ok || refused.Status != http.StatusConflict || field(err) != "Idempotency-Key" {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	c := r.claim(r.sent[0])
	if j, repeated := r.give(same); !repeated || j.Status != jobs.Running || len(r.sent) != 1 {
		t.Errorf("of a running job: %+v", j)
	}
	// Its input may be gone when the job has ended.
	r.finish(c, jobs.Outcome{State: jobs.Failed, Reason: "no luck"})
	if err := r.store.Delete(t.Context(), "uploads/a.pdf"); err != nil {
		t.Fatal(err)
	}
	if j, repeated := r.give(same); !repeated || j.Status != jobs.Failed || len(r.sent) != 1 {
		t.Errorf("of a failed job: %+v", j)
	}
	// Run again by a person, it is still that job.
	if _, err := r.fleet.Retry(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	if j, repeated := r.give(same); j.ID != made.ID || !repeated || j.Status != jobs.Queued {
		t.Errorf("after a retry: %+v, repeated %t", j, repeated)
	}
	other := first
	other.Params = json.RawMessage(`{"dpi":301}`)
	if _, _, err := r.fleet.Submit(t.Context(), other); field(err) != "Idempotency-Key" {
		t.Errorf("after a retry, other params: %v, want a refusal", err)
	}
}

func TestK19WhatWasCutOffBeforeItWasPublishedIsPublishedOnce(t *testing.T) {
	r := newSubmitRig(t)
	s := jobapi.Submission{Kind: "thumbnail", Params: json.RawMessage(`{"dpi":300}`), Input: "uploads/a.pdf", Key: "nightly"}
	r.fails = jobs.ErrUnavailable
	_, _, err := r.fleet.Submit(t.Context(), s)
	if !errors.Is(err, pubsub.ErrNotPublished) || !errors.Is(err, jobs.ErrUnavailable) || !isRefused(err, jobapi.CodeUnavailable) {
		t.Errorf("not published: %v", err)
	}
	r.fails = nil
	for i := range 3 {
		j, repeated := r.give(s)
		if len(r.sent) != 1 || r.sent[0].Input != s.Input || r.sent[0].Payload != `{"dpi":300}` || string(r.sent[0].ID) != j.ID || !repeated {
			t.Errorf("call %d: published %+v, want one message, whole", i, r.sent)
		}
	}
}

func TestK19ManyCallersWithOneKeyMakeOneJob(t *testing.T) {
	r := newSubmitRig(t)
	var all sync.WaitGroup
	ids := make([]string, 20)
	for i := range ids {
		all.Go(func() {
			j, _, err := r.fleet.Submit(t.Context(), jobapi.Submission{Kind: "report", Params: json.RawMessage(`{"month":"2026-11"}`), Key: "k"})
			if err != nil {
				t.Error(err)
			}
			ids[i] = j.ID
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("ids %v, want one", ids)
		}
	}
	if page, err := r.fleet.List(t.Context(), jobapi.Query{Limit: 50}); err != nil || len(page.Items) != 1 || len(r.sent) < 1 {
		t.Errorf("%d jobs, %v, %d messages", len(page.Items), err, len(r.sent))
	}
}

func TestK19JobsAreSubmittedOverHTTP(t *testing.T) {
	r := newSubmitRig(t)
	url, c := r.serve(asItIs)
	post := func(body string, headers ...string) (int, jobapi.Job, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/fleet/jobs", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			req.Header.Add(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		var j jobapi.Job
		_ = json.Unmarshal(text, &j)
		if at := resp.Header.Get("Location"); resp.StatusCode < 300 && at != "/api/v1/fleet/jobs/"+j.ID {
			t.Errorf("Location %q of job %q", at, j.ID)
		}
		return resp.StatusCode, j, string(text)
	}
	const body = `{"kind":"thumbnail","params":{"dpi":300},"input":"uploads/a.pdf"}`
	status, first, text := post(body, "Idempotency-Key", "k1")
	if status != 201 || first.Status != jobs.Queued || first.Type != "fleet.thumbnail" {
		t.Errorf("%d %s", status, text)
	}
	if status, again, text := post(body, "Idempotency-Key", "k1"); status != 200 || again.ID != first.ID {
		t.Errorf("again: %d %s", status, text)
	}
	for _, tt := range []struct {
		name    string
		body    string
		headers []string
		status  int
		says    string
	}{
		{"a key for something else", `{"kind":"mock"}`, []string{"Idempotency-Key", "k1"}, 409, `"field":"Idempotency-Key"`},
		{"params that are refused", `{"kind":"thumbnail","params":{"dpi":7},"input":"uploads/a.pdf"}`, nil, 400, `"field":"params.dpi"`},
		{"params that are no object", `{"kind":"thumbnail","params":[7],"input":"uploads/a.pdf"}`, nil, 400, `"field":"params"`},
		{"no kind", `{"params":{}}`, nil, 400, `"field":"kind"`},
		{"an empty kind", `{"kind":""}`, nil, 400, `"field":"kind"`},
		{"a field that there is none of", `{"kind":"mock","files":["a"]}`, nil, 400, `"field":"files"`},
		{"inputs that are no list", `{"kind":"merge","inputs":"uploads/a.pdf"}`, nil, 400, `"field":"inputs"`},
		{"an input that is no name", `{"kind":"merge","inputs":["uploads/a.pdf",null]}`, nil, 400, `"field":"inputs"`},
		{"a key twice in an object", `{"kind":"mock","params":{"a":1,"a":2}}`, nil, 400, `INVALID_ARGUMENT`},
		{"two keys", `{"kind":"mock"}`, []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}, 400, `"field":"Idempotency-Key"`},
		{"an id and a key", `{"kind":"mock","id":"x"}`, []string{"Idempotency-Key", "a"}, 400, `"field":"id"`},
		{"no body", ``, nil, 400, `INVALID_ARGUMENT`},
		{"a body that is too long", `{"kind":"` + strings.Repeat("k", 1<<20) + `"}`, nil, 413, `PAYLOAD_TOO_LARGE`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if status, _, text := post(tt.body, tt.headers...); status != tt.status || !strings.Contains(text, tt.says) {
				t.Errorf("%d %s, want %d with %s", status, text, tt.status, tt.says)
			}
		})
	}
	if status, _, text := post(`{"kind":"merge","inputs":["uploads/a.pdf","uploads/b.pdf"]}`); status != 201 || fmt.Sprint(r.sent[len(r.sent)-1].Inputs) != "[uploads/a.pdf uploads/b.pdf]" {
		t.Errorf("several inputs: %d %s, published %+v", status, text, r.sent)
	}
	if _, err := c.Submit(t.Context(), "fleet", jobapi.Submission{Kind: "merge", Inputs: []string{"uploads/b.pdf", "uploads/a.pdf"}}); err != nil || fmt.Sprint(r.sent[len(r.sent)-1].Inputs) != "[uploads/b.pdf uploads/a.pdf]" {
		t.Errorf("several inputs, by the client: %v, published %+v", err, r.sent)
	}
	if status, _, text := post(`{"kind":"mock","id":"mine"}`); status != 201 {
		t.Errorf("%d %s", status, text)
	}
	if status, _, text := post(`{"kind":"mock","id":"mine"}`); status != 409 || !strings.Contains(text, `"status":"queued"`) {
		t.Errorf("an id that is in use: %d %s", status, text)
	}
	// The client, which the commands use.
	j, err := c.Submit(t.Context(), "fleet", jobapi.Submission{Kind: "thumbnail", Params: json.RawMessage(`{"dpi":300}`), Input: "uploads/a.pdf", Key: "k1"})
	if err != nil || j.ID != first.ID {
		t.Errorf("client: %+v, %v", j, err)
	}
	r.fails = jobs.ErrUnavailable
	if status, _, text := post(`{"kind":"mock"}`, "Idempotency-Key", "k2"); status != 503 || !strings.Contains(text, "is recorded") {
		t.Errorf("without Pub/Sub: %d %s", status, text)
	}
}

func TestK19TheResultOfAJobIsReadOverHTTP(t *testing.T) {
	r := newSubmitRig(t)
	store := r.made(map[string][]byte{"words.txt": []byte("three")})
	url, _ := r.serve(asItIs)
	get := func(id string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/fleet/jobs/"+id+"/result", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	content, err := store.Open(t.Context(), artifact.ResultName("own"))
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var want bytes.Buffer
	if _, err := want.ReadFrom(content); err != nil {
		t.Fatal(err)
	}
	if status, text := get("own"); status != 200 || text != want.String() || !strings.Contains(text, `"words.txt"`) {
		t.Errorf("%d %s, want %s", status, text, want.String())
	}
	r.submit("waiting")
	if status, text := get("waiting"); status != 409 || !strings.Contains(text, `"status":"queued"`) {
		t.Errorf("of a queued job: %d %s", status, text)
	}
	if status, text := get("nobody"); status != 404 {
		t.Errorf("of no job: %d %s", status, text)
	}
}

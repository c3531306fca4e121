package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// uploads sends texts as inputs of kind thumbnail.
func (r *rig) uploads(texts ...string) (names []string) {
	r.t.Helper()
	for _, text := range texts {
		names = append(names, r.upload("thumbnail", text))
	}
	return names
}

func (r *rig) submitInputs(names []string) string {
	r.t.Helper()
	return decode[wire.SubmitResponse](r.t, r.do("POST", "/calc/thumbnail/jobs", map[string]any{"inputs": names, "params": map[string]any{"dpi": 60}})).JobID
}

const thumbnailLease = "/calc/thumbnail/compute/jobs/lease"

var knowsInputs = []string{wire.FeatureRenew, wire.FeatureInputs}

func TestK05AWorkerOfAGatewayReadsEachOfSeveralInputs(t *testing.T) {
	r := newRig(t, withFiles(t))
	w := r.worker()
	texts := []string{strings.Repeat("first\n", 20_000), "second", ""}
	names := r.uploads(texts...)
	id := r.submitInputs(names)
	if a := w.post(thumbnailLease, wire.LeaseRequest{Features: []string{wire.FeatureRenew, wire.FeatureCancel}}); a.status != 204 {
		t.Fatalf("a worker that does not know of several inputs was answered %d %s", a.status, a.body)
	}
	g := decode[wire.LeaseResponse](t, w.post(thumbnailLease, wire.LeaseRequest{Features: knowsInputs}))
	p, err := wire.ParsePayload(g.Payload)
	if err != nil || g.JobID != id || p.Input != "" || !slices.Equal(p.Inputs, names) || string(p.Params) != `{"dpi":60}` {
		t.Fatalf("leased %+v with %s, %v", g, g.Payload, err)
	}
	// A worker from before there were several inputs reads its payload like this. One may lease with scripts of its own.
	var before struct {
		Params json.RawMessage `json:"params"`
		Input  string          `json:"input"`
	}
	if json.Unmarshal(g.Payload, &before) == nil {
		t.Errorf("an old worker would run the job with %+v", before)
	}
	headers := append(bearer(w.token), "X-Lease-Id", g.LeaseID)
	path := "/calc/thumbnail/compute/jobs/" + id + "/input"
	for i, text := range texts {
		a := r.do("GET", fmt.Sprintf("%s?number=%d", path, i+1), nil, headers...)
		if a.status != 200 || a.body != text || a.header.Get("X-Content-SHA256") != sumOf(text) {
			t.Errorf("input %d: %d, %d bytes, %v", i+1, a.status, len(a.body), a.header)
		}
	}
	if a := r.do("GET", path+"?number=1", nil, append(headers, "Range", "bytes=119990-")...); a.status != 206 || a.body != texts[0][119_990:] {
		t.Errorf("the rest of the first: %d, %q", a.status, a.body)
	}
	refused(t, r.do("GET", path+"?number=4", nil, headers...), 404, wire.InputNotFound)
	for _, query := range []string{"", "?number=0", "?number=-1", "?number=x", "?number="} {
		refused(t, r.do("GET", path+query, nil, headers...), 400, wire.InvalidPayload)
	}
	if n, err := control.Clean(t.Context(), r.plane); err != nil || n != 0 {
		t.Errorf("cleaned %d, %v while there is a job of them", n, err)
	}
	r.rdb.Del(t.Context(), "zpe:status:"+id) // it has expired
	if n, err := control.Clean(t.Context(), r.plane); err != nil || n != len(texts) {
		t.Errorf("cleaned %d, %v after their job has expired", n, err)
	}
}

func TestK05AListOfOneInputIsTheOneInput(t *testing.T) {
	r := newRig(t, withFiles(t))
	w := r.worker()
	names := r.uploads("a")
	id := r.submitInputs(names)
	g := w.leaseOf(thumbnailLease) // which does not know of several
	if want := `{"params":{"dpi":60},"input":"` + names[0] + `"}`; g.JobID != id || string(g.Payload) != want {
		t.Errorf("leased %s with %s, want %s with %s", g.JobID, g.Payload, id, want)
	}
	for _, query := range []string{"", "?number=1"} {
		if a := r.do("GET", "/calc/thumbnail/compute/jobs/"+id+"/input"+query, nil, append(bearer(w.token), "X-Lease-Id", g.LeaseID)...); a.body != "a" {
			t.Errorf("%q: %d %s", query, a.status, a.body)
		}
	}
}

func TestK05InputsOfAGatewaysJobThatAreRefused(t *testing.T) {
	files := withFiles(t)
	r := newRig(t, func(r *rig) {
		files(r)
		r.plane.Kinds = map[jobs.Kind]control.Kind{"thumbnail": {MaxInput: 10}, "large": {}, "one": {OneInput: true, NeedsInput: true}}
	})
	names := r.uploads("123456", "7890x")
	for name, tt := range map[string]struct {
		kind  string
		body  map[string]any
		says  string
		field string
	}{
		"one that is not there":        {"thumbnail", map[string]any{"inputs": []string{names[0], "uploads/00000000000000000000000000"}}, "there is no upload such as number 2", "inputs"},
		"one that is no upload":        {"thumbnail", map[string]any{"inputs": []string{"gs://x/y", names[0]}}, "there is no upload such as number 1", "inputs"},
		"too large together":           {"thumbnail", map[string]any{"inputs": names}, "they have 11 bytes together, and at most 10 are allowed (max_input of kind thumbnail)", "inputs"},
		"both fields":                  {"thumbnail", map[string]any{"input": names[0], "inputs": names}, "they are one field", "inputs"},
		"too many":                     {"large", map[string]any{"inputs": slices.Repeat(names[:1], wire.MaxInputs+1)}, "1001 inputs, at most 1000 are allowed", "inputs"},
		"of a command for one":         {"one", map[string]any{"inputs": names}, "has {input} within an argument, so a job has one, and not 2", "inputs"},
		"none where one is needed":     {"one", map[string]any{}, "the command of kind one names its input, so a job needs one", "input"},
		"one in a list, too large":     {"thumbnail", map[string]any{"inputs": r.uploadsOf("large", "12345678901")}, "it has 11 bytes, and at most 10 are allowed", "input"},
		"one that is not there, alone": {"thumbnail", map[string]any{"inputs": []string{"uploads/00000000000000000000000000"}}, "there is no such upload", "input"},
	} {
		a := r.do("POST", "/calc/"+tt.kind+"/jobs", tt.body)
		if msg := refused(t, a, 400, wire.InvalidPayload); !strings.Contains(msg, tt.says) || !strings.Contains(a.body, `"field":"`+tt.field+`"`) {
			t.Errorf("%s: answered %s, want %q about %s", name, a.body, tt.says, tt.field)
		}
	}
	decode[wire.SubmitResponse](t, r.do("POST", "/calc/large/jobs", map[string]any{"inputs": slices.Repeat(names[:1], wire.MaxInputs)}))
	decode[wire.SubmitResponse](t, r.do("POST", "/calc/one/jobs", map[string]any{"inputs": names[:1]}))
	decode[wire.SubmitResponse](t, r.do("POST", "/calc/thumbnail/jobs", map[string]any{"inputs": []string{}}))
}

func (r *rig) uploadsOf(kind string, text string) []string {
	r.t.Helper()
	return []string{r.upload(kind, text)}
}

func TestK05TheSameInputsUploadedTwiceAreTheSameRequest(t *testing.T) {
	r := newRig(t, withFiles(t))
	submit := func(texts ...string) answer {
		return r.do("POST", "/calc/thumbnail/jobs", map[string]any{"inputs": r.uploads(texts...)}, "Idempotency-Key", "k")
	}
	first := decode[wire.SubmitResponse](t, submit("a", "b"))
	if again := decode[wire.SubmitResponse](t, submit("a", "b")); again != first {
		t.Errorf("jobs %+v and %+v", first, again)
	}
	for _, other := range [][]string{{"b", "a"}, {"a"}, {"a", "b", "b"}, nil} {
		refused(t, submit(other...), 422, wire.IdempotencyReused)
	}
}

func TestK05ARequestThatWaitsForAJobWithSeveralInputsIsWoken(t *testing.T) {
	files := withFiles(t)
	r := newRig(t, func(r *rig) {
		files(r)
		r.plane.JobPollEvery = time.Hour
	})
	names := r.uploads("a", "b")
	waits := func(features []string) <-chan answer {
		w, got := r.worker(), make(chan answer, 1)
		go func() {
			a, _ := w.try(context.WithoutCancel(t.Context()), "POST", thumbnailLease, wire.LeaseRequest{Features: features, WaitSeconds: 30}, bearer(w.token)...)
			got <- a
		}()
		return got
	}
	waiting := func(n int) {
		t.Helper()
		until(t, "requests wait", func() bool { return strings.Contains(r.scrape(), fmt.Sprintf("lease_requests_waiting %d", n)) })
	}
	old := waits(nil) // has waited longest, so it is woken first
	waiting(1)
	able := waits(knowsInputs)
	waiting(2)
	id := r.submitInputs(names)
	if g := decode[wire.LeaseResponse](t, <-able); g.JobID != id {
		t.Errorf("leased %+v, want %s", g, id)
	}
	waiting(1) // the old one goes on
	next := r.submitKind("thumbnail")
	if g := decode[wire.LeaseResponse](t, <-old); g.JobID != next {
		t.Errorf("leased %+v, want %s", g, next)
	}
}

func TestK05AWorkerInsideReadsEachOfSeveralInputs(t *testing.T) {
	t.Parallel()
	r := newRig(t, withFiles(t))
	d := r.direct("within")
	id := r.submitInputs(r.uploads("first", "second"))
	request := wire.LeaseRequest{Kind: "thumbnail"}
	if g, err := d.Lease(t.Context(), request); g != nil || err != nil {
		t.Fatalf("leased %+v, %v without the feature", g, err)
	}
	request.Features = knowsInputs
	g, err := d.Lease(t.Context(), request)
	if err != nil || g == nil || g.JobID != id {
		t.Fatalf("leased %+v, %v", g, err)
	}
	l := gateway.LeaseOf{Kind: "thumbnail", Job: jobs.ID(id), ID: g.LeaseID}
	for number, text := range map[int]string{1: "first", 2: "second"} {
		body, sum, err := d.Input(t.Context(), l, number, 2)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(body); string(got) != text[2:] || err != nil || sum != sumOf(text) {
			t.Errorf("input %d from byte 2: %q, %s, %v", number, got, sum, err)
		}
		_ = body.Close()
	}
	for number, code := range map[int]wire.Code{3: wire.InputNotFound, 0: wire.InvalidPayload} {
		_, _, err := d.Input(t.Context(), l, number, 0)
		if e, ok := err.(*gateway.Error); !ok || e.Code != code { //nolint:errorlint // as it is returned
			t.Errorf("input %d: %v, want %s", number, err, code)
		}
	}
}

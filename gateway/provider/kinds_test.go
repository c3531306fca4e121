package provider_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/provider"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/storage"
)

const thumbnailFile = `
[thumbnail]
command = ["thumb", "{params.dpi}"]
max_input = "1KB"
[thumbnail.params.dpi]
type = "integer"
default = 60
min = 10
max = 600
`

// newKinds returns the jobs of a gateway with one kind.
func newKinds(r *zpeRig) *provider.Kinds {
	r.Helper()
	set, err := kinds.Parse("kinds.toml", []byte(thumbnailFile))
	if err != nil {
		r.Fatal(err)
	}
	store, err := storage.NewLocal(r.TempDir())
	if err != nil {
		r.Fatal(err)
	}
	c := &control.Control{
		Queue: r.q, Log: slog.New(slog.DiscardHandler), Metrics: control.NewMetrics("test", r.q), Kinds: control.KindsOf(set),
		Files: &control.Files{Store: store, MaxInput: 1 << 20},
	}
	return &provider.Kinds{ZPE: &provider.ZPE{Queue: r.q, Others: true, Stop: c.Cancel}, Give: c.SubmitKind}
}

// uploaded records an upload of so many bytes and returns its name for submissions.
func (r *zpeRig) uploaded(name string, size int64, sum string) string {
	r.Helper()
	if err := r.q.AddUpload(r.Context(), queue.Upload{Name: name, Size: size, SHA256: strings.Repeat(sum, 64)}); err != nil {
		r.Fatal(err)
	}
	return "uploads/" + name
}

func TestK19AJobIsGivenToAGatewayWithItsParamsAndItsInput(t *testing.T) {
	r := newZPERig(t)
	k := newKinds(r)
	in := r.uploaded("01M8A30T6F913HD05Y5BS1GX9S", 7, "a")
	for _, s := range []jobapi.Submission{
		{Kind: "thumbnail", Params: json.RawMessage(`{"dpi": 300}`), Input: in},
		{Kind: "thumbnail", Params: json.RawMessage(`{"dpi": 300}`), Inputs: []string{in}},
	} {
		j, again, err := k.Submit(t.Context(), s)
		if err != nil || again || j.Scope != "gateway" || j.Type != "gateway.thumbnail" || j.Status != jobs.Queued {
			t.Fatalf("%+v, again %t, %v", j, again, err)
		}
		payload, err := r.q.Payload(t.Context(), jobs.ID(j.ID))
		if want := `{"params":{"dpi":300},"input":"` + in + `"}`; err != nil || payload != want {
			t.Errorf("queued %s, %v; want %s", payload, err, want)
		}
	}
}

func TestK05AJobIsGivenToAGatewayWithSeveralInputs(t *testing.T) {
	r := newZPERig(t)
	k := newKinds(r)
	names := []string{r.uploaded("01M8A30T6F913HD05Y5BS1GX9S", 7, "a"), r.uploaded("01M8A30T6F913HD05Y5BS1GX9T", 7, "b")}
	j, _, err := k.Submit(t.Context(), jobapi.Submission{Kind: "thumbnail", Inputs: names})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := r.q.Payload(t.Context(), jobs.ID(j.ID))
	if want := `{"input":["` + names[0] + `","` + names[1] + `"],"params":{"dpi":60}}`; err != nil || payload != want {
		t.Errorf("queued %s, %v; want %s", payload, err, want)
	}
}

func TestK19TheSameKeyIsTheSameJobOfAGateway(t *testing.T) {
	r := newZPERig(t)
	k := newKinds(r)
	first := jobapi.Submission{Kind: "thumbnail", Params: json.RawMessage(`{"dpi":300}`), Input: r.uploaded("01M8A30T6F913HD05Y5BS1GX9S", 7, "a"), Key: "k"}
	j, again, err := k.Submit(t.Context(), first)
	if err != nil || again {
		t.Fatalf("again %t, %v", again, err)
	}
	second := first // the same content, uploaded again
	second.Input = r.uploaded("01M8A30T6F913HD05Y5BS1GX9T", 7, "a")
	for _, s := range []jobapi.Submission{first, second} {
		if same, again, err := k.Submit(t.Context(), s); err != nil || !again || same.ID != j.ID {
			t.Errorf("job %s, again %t, %v; want job %s", same.ID, again, err, j.ID)
		}
	}
	for _, s := range []jobapi.Submission{
		{Kind: "thumbnail", Params: json.RawMessage(`{"dpi":299}`), Input: first.Input, Key: "k"},
		{Kind: "thumbnail", Params: first.Params, Key: "k"},
		{Kind: "thumbnail", Params: first.Params, Input: r.uploaded("01M8A30T6F913HD05Y5BS1GX9V", 7, "b"), Key: "k"},
	} {
		_, _, err := k.Submit(t.Context(), s)
		refused, ok := errors.AsType[*jobapi.Refusal](err)
		if !ok || refused.Status != http.StatusConflict || refused.Details["field"] != jobapi.HeaderIdempotencyKey {
			t.Errorf("%+v: %v, want a conflict", s, err)
		}
	}
}

func TestK19WhatAGatewayDoesNotTakeIsNamed(t *testing.T) {
	r := newZPERig(t)
	k := newKinds(r)
	large := r.uploaded("01M8A30T6F913HD05Y5BS1GX9S", 1001, "a")
	for _, tt := range []struct {
		name, field, says string
		give              jobapi.Submission
	}{
		{"a param out of its range", "params.dpi", "params.dpi is 7: must be from 10 to 600", jobapi.Submission{Kind: "thumbnail", Params: json.RawMessage(`{"dpi":7}`)}},
		{"params that are a list", "params", "want an object", jobapi.Submission{Kind: "thumbnail", Params: json.RawMessage(`[7]`)}},
		{"a kind that it does not have", "kind", "no such kind", jobapi.Submission{Kind: "video"}},
		{"kind zpe, which is a scope of its own", "kind", "no such kind", jobapi.Submission{Kind: "zpe"}},
		{"an upload that there is none of", "input", "there is no such upload", jobapi.Submission{Kind: "thumbnail", Input: "uploads/01M8A30T6F913HD05Y5BS1GX9T"}},
		{"an object of another storage", "input", "there is no such upload", jobapi.Submission{Kind: "thumbnail", Input: "gs://bucket/a.pdf"}},
		{"an upload that is too large for the kind", "input", "it has 1001 bytes, and at most 1000 are allowed (max_input of kind thumbnail)", jobapi.Submission{Kind: "thumbnail", Input: large}},
		{"two inputs that are too large together", "inputs", "they have 2002 bytes together", jobapi.Submission{Kind: "thumbnail", Inputs: []string{large, large}}},
		{"both fields", "inputs", "they are one field", jobapi.Submission{Kind: "thumbnail", Input: large, Inputs: []string{large}}},
		{"an id", "id", "Idempotency-Key", jobapi.Submission{Kind: "thumbnail", ID: "mine"}},
		{"a key with a blank", "Idempotency-Key", "visible ASCII", jobapi.Submission{Kind: "thumbnail", Key: "a b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := k.Submit(t.Context(), tt.give)
			field := ""
			if e, ok := errors.AsType[*jobapi.FieldError](err); ok {
				field = e.Field
			} else if e, ok := errors.AsType[*jobapi.Refusal](err); ok && e.Status == http.StatusBadRequest {
				field = fmt.Sprint(e.Details["field"])
			}
			if field != tt.field || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v is about %q, want %q and %q", err, field, tt.field, tt.says)
			}
		})
	}
	off := false
	if _, err := r.q.SetOps(t.Context(), &off, nil); err != nil {
		t.Fatal(err)
	}
	_, _, err := k.Submit(t.Context(), jobapi.Submission{Kind: "thumbnail"})
	if refused, ok := errors.AsType[*jobapi.Refusal](err); !ok || refused.Status != http.StatusServiceUnavailable || refused.Message != "Submission is disabled" {
		t.Errorf("while submission is disabled: %v", err)
	}
	if got := listed(t, k, jobapi.Query{}); len(got) > 0 {
		t.Errorf("queued %v, want nothing", got)
	}
}

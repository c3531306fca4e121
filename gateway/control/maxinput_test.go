package control_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// newInputRig starts a gateway that takes inputs of 1 MiB, with a kind that takes 1000 bytes.
func newInputRig(t *testing.T) *rig {
	t.Helper()
	files := withFiles(t)
	return newRig(t, func(r *rig) {
		files(r)
		r.plane.Kinds = map[jobs.Kind]control.Kind{"small": {MaxInput: 1000}, "large": {MaxInput: 10 << 20}}
	})
}

func (r *rig) upload(kind, text string) string {
	r.t.Helper()
	return decode[wire.InputResponse](r.t, r.do("POST", "/calc/"+kind+"/inputs", text)).Input
}

func TestK17AnInputAboveTheLimitOfItsKindIsRefusedWithTheLimit(t *testing.T) {
	r := newInputRig(t)
	for _, tt := range []struct {
		kind string
		size int
		want string // the message; empty for none
	}{
		{"small", 1000, ""},
		{"small", 1001, "Input larger than 1000 bytes (max_input of kind small)"},
		{"large", 1 << 20, ""},
		{"large", 1<<20 + 1, "Input larger than 1048576 bytes (MAX_INPUT_BYTES of the gateway)"},
	} {
		a := r.do("POST", "/calc/"+tt.kind+"/inputs", strings.Repeat("x", tt.size))
		if tt.want == "" {
			if a.status != 200 {
				t.Errorf("%d bytes of kind %s were answered %d %s", tt.size, tt.kind, a.status, a.body)
			}
			continue
		}
		if msg := refused(t, a, 413, wire.PayloadTooLarge); msg != tt.want {
			t.Errorf("%d bytes of kind %s: %q, want %q", tt.size, tt.kind, msg, tt.want)
		}
	}
	// An upload for one kind is none too large for another.
	in := r.upload("large", strings.Repeat("x", 1001))
	a := r.do("POST", "/calc/small/jobs", `{"input":"`+in+`"}`)
	want := "Invalid field input: it has 1001 bytes, and at most 1000 are allowed (max_input of kind small)"
	if msg := refused(t, a, 400, wire.InvalidPayload); msg != want || !strings.Contains(a.body, `"field":"input"`) {
		t.Errorf("answered %s, want %q about field input", a.body, want)
	}
	decode[wire.SubmitResponse](t, r.do("POST", "/calc/large/jobs", `{"input":"`+in+`"}`))
}

func TestK17TheSameContentUploadedTwiceIsTheSameRequest(t *testing.T) {
	r := newInputRig(t)
	submit := func(text string) answer {
		body, err := json.Marshal(wire.SubmitRequest{Input: r.upload("small", text), Params: json.RawMessage(`{"a":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		return r.do("POST", "/calc/small/jobs", string(body), "Idempotency-Key", "k")
	}
	first := decode[wire.SubmitResponse](t, submit("some text"))
	if again := decode[wire.SubmitResponse](t, submit("some text")); again != first {
		t.Errorf("jobs %+v and %+v", first, again)
	}
	refused(t, submit("other text"), 422, wire.IdempotencyReused)
	payload, err := r.queue.Payload(t.Context(), jobs.ID(first.JobID))
	if err != nil || !strings.Contains(payload, `"input":"uploads/`) {
		t.Errorf("the job's payload is %s, %v; want it to name the upload", payload, err)
	}
}

package control_test

import (
	"encoding/json"
	"testing"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

const thumbnailFile = `
[thumbnail]
command = ["thumb", "{params.dpi}"]
[thumbnail.params.dpi]
type = "integer"
default = 60
min = 10
max = 600
[thumbnail.params.title]
type = "string"
`

// newFileRig starts a gateway with the kinds of thumbnailFile.
func newFileRig(t *testing.T, change func(*rig)) *rig {
	t.Helper()
	set, err := kinds.Parse("kinds.toml", []byte(thumbnailFile))
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, func(r *rig) {
		r.plane.Kinds = control.KindsOf(set)
		if change != nil {
			change(r)
		}
	})
}

func TestK17ParamsAreCheckedAtSubmission(t *testing.T) {
	r := newFileRig(t, nil)
	tests := []struct{ name, body, field, message string }{
		{"too small", `{"params":{"dpi":7}}`, "params.dpi", "params.dpi is 7: must be from 10 to 600"},
		{"of another type", `{"params":{"dpi":"x"}}`, "params.dpi", ""},
		{"not known", `{"params":{"dp":7}}`, "params.dp", ""},
		{"no object", `{"params":[]}`, "params", "Invalid field params: want an object"},
		{"not in params", `{"dpi":60}`, "", ""},
		{"not an object at all", `[]`, "", ""},
		{"twice", `{"params":{"dpi":60,"dpi":61}}`, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := r.do("POST", "/calc/thumbnail/jobs", tt.body)
			msg := refused(t, a, 400, wire.InvalidPayload)
			var body wire.ErrorBody
			if err := json.Unmarshal([]byte(a.body), &body); err != nil {
				t.Fatal(err)
			}
			if field, _ := body.Error.Details["field"].(string); field != tt.field || tt.message != "" && msg != tt.message {
				t.Errorf("answered %s, want field %q and message %q", a.body, tt.field, tt.message)
			}
		})
	}
	for body, want := range map[string]string{
		`{"params":{"title":"a <b>"}}`: `{"params":{"dpi":60,"title":"a <b>"}}`,
		`{}`:                           `{"params":{"dpi":60}}`,
	} {
		id := decode[wire.SubmitResponse](t, r.do("POST", "/calc/thumbnail/jobs", body)).JobID
		if got, err := r.queue.Payload(t.Context(), jobs.ID(id)); err != nil || got != want {
			t.Errorf("%s became %s, %v; want %s", body, got, err, want)
		}
	}
}

func TestK17AnIdempotencyKeyIsOfOneKind(t *testing.T) {
	r := newKindRig(t, nil)
	submit := func(kind, body string) answer {
		return r.do("POST", "/calc/"+kind+"/jobs", body, "Idempotency-Key", "k1")
	}
	first := decode[wire.SubmitResponse](t, submit("thumbnail", `{"params":{"a":1}}`))
	if again := decode[wire.SubmitResponse](t, submit("thumbnail", `{"params":{"a":1}}`)); again != first {
		t.Errorf("the same again is %+v, was %+v", again, first)
	}
	refused(t, submit("thumbnail", `{"params":{"a":2}}`), 422, wire.IdempotencyReused)
	for _, kind := range []string{"wordcount", "zpe"} {
		if other := decode[wire.SubmitResponse](t, submit(kind, `{"params":{"a":1}}`)); other == first {
			t.Errorf("the key of another kind brought %+v", other)
		}
	}
}

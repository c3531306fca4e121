package provider_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/status"
)

func TestD04FleetKnowsItsKinds(t *testing.T) {
	r := newFleetRig(t)
	set, err := kinds.Parse("kinds.toml", []byte(`
[resize]
description = "smaller images"
command = ["true", "{input}"]
slots = 3
[resize.params.width]
type = "integer"
required = true
[one]
command = ["true", "--in={input}"]
[none]
command = ["true"]
`))
	if err != nil {
		t.Fatal(err)
	}
	r.fleet.KindsFile = func() *kinds.Set { return set }
	for i, runs := range [][]jobs.Kind{{"pdf", "resize", "pdf"}, {"resize", "other", "Bad Name"}} {
		st := status.New(r.rdb)
		st.Worker = fmt.Sprint("w", i)
		if err := st.Member(status.Worker{Kinds: runs, Slots: 2}).Pulse(t.Context(), 0, false, ""); err != nil {
			t.Fatal(err)
		}
	}
	all, err := r.fleet.Kinds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range all {
		params := "null"
		if k.Params != nil {
			var schema struct {
				Properties map[string]any `json:"properties"`
			}
			if err := json.Unmarshal(k.Params, &schema); err != nil {
				t.Errorf("params of %s: %v", k.Name, err)
			}
			params = fmt.Sprint(len(schema.Properties))
		}
		got = append(got, fmt.Sprintf("%s %s params=%s workers=%d slots=%d cap=%d", k.Name, k.Input, params, k.Workers, k.Slots, k.Cap))
	}
	want := []string{
		"mock optional params=0 workers=0 slots=0 cap=0",
		"none optional params=0 workers=0 slots=0 cap=0",
		"one one params=0 workers=0 slots=0 cap=0",
		"other optional params=null workers=1 slots=2 cap=0",
		"pdf one params=0 workers=1 slots=2 cap=0",
		"resize many params=1 workers=2 slots=4 cap=3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if text, err := json.Marshal(all[3]); err != nil || !strings.Contains(string(text), `"params":null`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestD04InputIsStoredForASubmission(t *testing.T) {
	r := newSubmitRig(t)
	store, ctx := r.store, t.Context()
	for name, want := range map[string]string{
		"x.pdf": "x.pdf", "Jahres bericht ä.pdf": "Jahres bericht ä.pdf", "a\x1b.txt": "document.txt", "..x": "..x",
	} {
		object, err := r.fleet.StoreInput(ctx, name, strings.NewReader("content"))
		if err != nil || !strings.HasPrefix(object, "uploads/") || !strings.HasSuffix(object, "/"+want) {
			t.Errorf("%q is stored as %q, %v; want %s", name, object, err, want)
			continue
		}
		f, err := store.Open(ctx, object)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(f); err != nil || string(text) != "content" {
			t.Errorf("%s holds %q, %v", object, text, err)
		}
		_ = f.Close()
	}
	for _, name := range []string{"", ".", "..", "a/b", `a\b`, "/etc/passwd", strings.Repeat("x", 256), "\xff"} {
		if _, err := r.fleet.StoreInput(ctx, name, strings.NewReader("")); !errors.As(err, new(*jobapi.FieldError)) {
			t.Errorf("name %q: %v, want a mistake of the caller", name, err)
		}
	}
	if object, err := r.fleet.StoreInput(ctx, "broken.pdf", iotest.ErrReader(errors.New("the line is cut"))); err == nil || object != "" {
		t.Errorf("a broken upload is stored as %q", object)
	}
}

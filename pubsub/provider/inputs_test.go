package provider_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/pubsub"
)

func TestK19AJobMayHaveSeveralInputs(t *testing.T) {
	r := newSubmitRig(t)
	r.give(jobapi.Submission{Kind: "merge", Inputs: []string{"uploads/b.pdf", "uploads/a.pdf"}})
	if got := r.sent[0]; got.Input != "" || !slices.Equal(got.Inputs, []string{"uploads/b.pdf", "uploads/a.pdf"}) {
		t.Errorf("published %+v, want both inputs in their order", got)
	}
	r.give(jobapi.Submission{Kind: "pdf", Inputs: []string{"uploads/a.pdf"}})
	if got := r.sent[1]; got.Input != "uploads/a.pdf" || got.Inputs != nil {
		t.Errorf("published %+v, want a list of one to be the one input, which every worker reads", got)
	}
}

func TestK19InputsAreCheckedBeforeAnythingIsQueued(t *testing.T) {
	r := newSubmitRig(t)
	many := slices.Repeat([]string{"uploads/a.pdf"}, pubsub.MaxInputs+1)
	long := slices.Repeat([]string{"uploads/" + strings.Repeat("x", 250) + "/page"}, pubsub.MaxInputs) // 263 000 bytes
	for _, tt := range []struct {
		name   string
		kind   string
		inputs []string
		says   string
	}{
		{"one is not there", "merge", []string{"uploads/a.pdf", "uploads/none.pdf"}, "uploads/none.pdf"},
		{"one is no name", "merge", []string{"uploads/a.pdf", "../x"}, "../x"},
		{"one is empty", "merge", []string{"uploads/a.pdf", ""}, "empty"},
		{"too many", "merge", many, "1001 inputs, at most 1000 are allowed"},
		{"too long", "merge", long, "bytes long, at most 262144 are allowed"},
		{"a document has one", "pdf", []string{"uploads/a.pdf", "uploads/b.pdf"}, "a document has one, and not 2"},
		{"so has one of the workers' default kind", "mock", []string{"uploads/a.pdf", "uploads/b.pdf"}, "a document has one, and not 2"},
		{"a command that has its input within an argument", "label", []string{"uploads/a.pdf", "uploads/b.pdf"}, "within an argument"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := r.fleet.Submit(t.Context(), jobapi.Submission{Kind: tt.kind, Inputs: tt.inputs})
			if field(err) != "inputs" || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v is about %q, want inputs and %q", err, field(err), tt.says)
			}
		})
	}
	if _, _, err := r.fleet.Submit(t.Context(), jobapi.Submission{Kind: "merge", Input: "uploads/a.pdf", Inputs: []string{"uploads/b.pdf"}}); field(err) != "inputs" {
		t.Errorf("input and inputs: %v", err)
	}
	if _, _, err := r.fleet.Submit(t.Context(), jobapi.Submission{Kind: "merge"}); field(err) != "input" {
		t.Errorf("no input: %v", err)
	}
	if len(r.sent) > 0 {
		t.Errorf("published %+v", r.sent)
	}
}

func TestK19InputsBelongToWhatAKeyStandsFor(t *testing.T) {
	r := newSubmitRig(t)
	give := func(inputs ...string) error {
		_, _, err := r.fleet.Submit(t.Context(), jobapi.Submission{Kind: "merge", Inputs: inputs, Key: fmt.Sprint("k", len(inputs))})
		return err
	}
	for _, tt := range []struct {
		inputs []string
		known  bool
	}{
		{[]string{"uploads/a.pdf", "uploads/b.pdf"}, true},
		{[]string{"uploads/a.pdf", "uploads/b.pdf"}, true},
		{[]string{"uploads/b.pdf", "uploads/a.pdf"}, false}, // a program may go by their order
		{[]string{"uploads/a.pdf", "uploads/a.pdf"}, false},
		{[]string{"uploads/a.pdf"}, true},
		{[]string{"uploads/b.pdf"}, false},
	} {
		if err := give(tt.inputs...); (err == nil) != tt.known || err != nil && field(err) != jobapi.HeaderIdempotencyKey {
			t.Errorf("%v: %v", tt.inputs, err)
		}
	}
	if _, repeated, err := r.fleet.Submit(t.Context(), jobapi.Submission{Kind: "merge", Input: "uploads/a.pdf", Key: "k1"}); err != nil || !repeated {
		t.Errorf("one input, in its own field: repeated %t, %v; want the same job as of a list of one", repeated, err)
	}
	if len(r.sent) != 2 {
		t.Errorf("published %d, want 2", len(r.sent))
	}
	if err := r.store.Delete(t.Context(), "uploads/b.pdf"); err != nil {
		t.Fatal(err)
	}
	if err := give("uploads/a.pdf", "uploads/b.pdf"); err != nil {
		t.Errorf("the same again, after an input was deleted: %v", err)
	}
}

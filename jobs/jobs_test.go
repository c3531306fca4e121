package jobs_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/batchfleet/batchfleet/jobs"
)

func TestF04JobID(t *testing.T) {
	tests := []struct {
		name, id string
		ok       bool
	}{
		{"uuid", "f47ac10b-58cc-4372-a567-0e02b2c3d479", true},
		{"one letter", "a", true},
		{"all allowed marks", "A.b_c-9", true},
		{"longest", strings.Repeat("x", 128), true},
		{"too long", strings.Repeat("x", 129), false},
		{"empty", "", false},
		{"leading dot", ".a", false},
		{"leading dash", "-a", false},
		{"parent directory", "a..b", false},
		{"slash", "a/b", false},
		{"backslash", `a\b`, false},
		{"space", "a b", false},
		{"newline", "a\n", false},
		{"nul", "a\x00", false},
		{"non-ascii", "jöb", false},
		{"brace", "{job}", false},
		{"glob", "job*", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := jobs.ParseID(tt.id)
			if (err == nil) != tt.ok {
				t.Fatalf("ParseID(%q) = %q, %v; want ok=%v", tt.id, id, err, tt.ok)
			}
			if err == nil && string(id) != tt.id {
				t.Errorf("ParseID(%q) = %q, want it unchanged", tt.id, id)
			}
			if err != nil && len(err.Error()) > 256 {
				t.Errorf("error is %d bytes long: it must not repeat a huge id", len(err.Error()))
			}
		})
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("f47ac10b-58cc-4372-a567-0e02b2c3d479")
	f.Add("..")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := jobs.ParseID(s)
		if err == nil && (string(id) != s || strings.ContainsAny(s, "/\\{}*\x00\n ") || strings.Contains(s, "..")) {
			t.Errorf("ParseID(%q) accepted it", s)
		}
	})
}

func TestStateNamesSurviveARoundTrip(t *testing.T) {
	for s := jobs.Queued; s <= jobs.Canceled; s++ {
		text, err := s.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got jobs.State
		if err := got.UnmarshalText(text); err != nil || got != s {
			t.Errorf("%v became %v, %v", s, got, err)
		}
	}
	var s jobs.State
	if err := s.UnmarshalText([]byte("done")); err == nil {
		t.Error(`"done" was taken for a state`)
	}
	if _, err := s.MarshalText(); err == nil {
		t.Error("the zero state was written out")
	}
}

func TestF32PercentIsComputedAsTheContractSays(t *testing.T) {
	for _, tt := range []struct{ done, total, want int }{
		{0, 0, 0},
		{0, 7, 0},
		{1, 7, 14},
		{5, 12, 41},
		{6, 7, 85},
		{7, 7, 100},
		{9, 7, 100},
		{-1, 7, 0},
		{3, -1, 0},
		{29, 100, 28}, // as Python's int(29/100*100)
	} {
		if got := (jobs.Progress{Done: tt.done, Total: tt.total}).Percent(); got != tt.want {
			t.Errorf("%d of %d is %d%%, want %d%%", tt.done, tt.total, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := jobs.Progress{Done: rapid.Int().Draw(t, "done"), Total: rapid.IntRange(1, 1<<40).Draw(t, "total")}
		if got := p.Percent(); got < 0 || got > 100 {
			t.Errorf("%+v is %d%%", p, got)
		}
	})
}

package trace_test

import (
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/trace"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
	good    = "00-" + traceID + "-" + spanID + "-01"
)

func TestD32Traceparent(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"sampled", good, good},
		{"not sampled", "00-" + traceID + "-" + spanID + "-00", "00-" + traceID + "-" + spanID + "-00"},
		{"other flags", "00-" + traceID + "-" + spanID + "-03", good},
		{"a later version", "cc-" + traceID + "-" + spanID + "-01-what-the-future-will-be-like", good},
		{"a later version without more", "01-" + traceID + "-" + spanID + "-01", good},
		{"a later version with garbage", "cc-" + traceID + "-" + spanID + "-01.what", ""},
		{"a later version that is too long", "cc-" + traceID + "-" + spanID + "-01-" + strings.Repeat("a", 128), ""},
		{"no version", "ff-" + traceID + "-" + spanID + "-01", ""},
		{"more than version 00 has", good + "-1", ""},
		{"no trace", "00-" + strings.Repeat("0", 32) + "-" + spanID + "-01", ""},
		{"no span", "00-" + traceID + "-" + strings.Repeat("0", 16) + "-01", ""},
		{"upper case", strings.ToUpper(good), ""},
		{"a blank before", " " + good, ""},
		{"too short", good[:54], ""},
		{"no digits", strings.Replace(good, "7", "g", 1), ""},
		{"no dash", strings.Replace(good, "-", "_", 1), ""},
		{"another dash", good[:35] + "a" + good[36:], ""},
		{"empty", "", ""},
		{"long", strings.Repeat(good, 10_000), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := trace.Known(tt.text); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			id := ""
			if tt.want != "" {
				id = traceID
			}
			if got := trace.IDOf(tt.text); got != id {
				t.Errorf("id %q, want %q", got, id)
			}
		})
	}
}

func FuzzD32Traceparent(f *testing.F) {
	f.Add(good)
	f.Add("cc-" + traceID + "-" + spanID + "-01-more")
	f.Add("00-")
	f.Fuzz(func(t *testing.T, text string) {
		c := trace.Parse(text)
		if !c.Valid() {
			if c != (trace.Context{}) || c.String() != "" {
				t.Errorf("%q is no traceparent, and yet %+v", text, c)
			}
			return
		}
		if !strings.Contains(text, c.Trace.String()+"-"+c.Span.String()) {
			t.Errorf("%q has ids %s and %s", text, c.Trace, c.Span)
		}
		if again := trace.Parse(c.String()); again != c {
			t.Errorf("%q: %+v, and then %+v", text, c, again)
		}
	})
}

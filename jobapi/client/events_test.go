package client

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func readEvents(in string, limit int) (all []sse, err error) {
	s := newSSE(iotest.OneByteReader(strings.NewReader(in)), limit)
	for {
		e, err := s.next()
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
}

func TestEventsAreReadAsBrowsersDo(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []sse
	}{
		{"an event", "event: job\ndata: x\nid: 7\n\n", []sse{{"job", "x", "7"}}},
		{"without blanks", "event:job\ndata:x\nid:7\n\n", []sse{{"job", "x", "7"}}},
		{"two blanks", "data:  x\n\n", []sse{{"", " x", ""}}},
		{"CRLF", "event: job\r\ndata: x\r\n\r\n", []sse{{"job", "x", ""}}},
		{"CR", "event: job\rdata: x\r\rdata: y\r\r", []sse{{"job", "x", ""}, {"", "y", ""}}},
		{"several lines", "data: a\ndata\ndata: b\n\n", []sse{{"", "a\n\nb", ""}}},
		{"comments", ": hello\n\n:\ndata: x\n: more\n\n", []sse{{"", "x", ""}}},
		{"an id stays", "id: 7\ndata: x\n\ndata: y\n\n", []sse{{"", "x", "7"}, {"", "y", "7"}}},
		{"an id alone", "id: 7\n\ndata: y\n\n", []sse{{"", "y", "7"}}},
		{"an id that no header can have", "id: a\x00b\ndata: x\nid: ü\n\n", []sse{{"", "x", ""}}},
		{"a name alone", "event: end\n\n", []sse{{"end", "", ""}}},
		{"a byte order mark", "\uFEFFdata: x\n\n", []sse{{"", "x", ""}}},
		{"fields of a newer server", "retry: 5\nfoo: bar\ndata: x\n\n", []sse{{"", "x", ""}}},
		{"one that is not ended", "data: x\n\ndata: y\n", []sse{{"", "x", ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := readEvents(tt.in, 1000)
			if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(sse{})); d != "" {
				t.Error(d)
			}
		})
	}
	long := strings.Repeat("data: 0123456789\n", 20)
	if _, err := readEvents(long, 100); !errors.Is(err, errLongEvent) {
		t.Errorf("an event over the limit: %v", err)
	}
	if got, err := readEvents(strings.Repeat(":0123456789\n\n", 20)+"data: x\n\n", 100); len(got) != 1 || errors.Is(err, errLongEvent) {
		t.Errorf("many comments: %v %v", got, err)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("event: job\ndata: x\nid: 7\n\n")
	f.Add("\uFEFFid: a\r\rdata\r\n\r\n:\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		const limit = 64
		all, err := readEvents(in, limit)
		if err == nil {
			t.Fatal("it does not end")
		}
		for _, e := range all {
			if len(e.data) > limit || len(e.name) > limit || strings.ContainsAny(e.id+e.name, "\r\n") || strings.Contains(e.data, "\r") {
				t.Errorf("event %+v", e)
			}
			if len(e.id) > maxEventID || strings.ContainsFunc(e.id, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("id %q cannot be a header", e.id)
			}
		}
		// However the lines end, the events are the same.
		if !strings.Contains(in, "\r") {
			for _, end := range []string{"\r", "\r\n"} {
				again, _ := readEvents(strings.ReplaceAll(in, "\n", end), limit)
				if d := cmp.Diff(all, again, cmp.AllowUnexported(sse{})); d != "" {
					t.Errorf("with %q: %s", end, d)
				}
			}
		}
	})
}

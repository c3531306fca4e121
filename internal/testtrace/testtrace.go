// Package testtrace keeps the spans that code under test makes, for tests that look at them.
package testtrace

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/trace"
)

// Spans are those that have ended, from any goroutine.
type Spans struct {
	mu  sync.Mutex
	all []*trace.Span
}

// New returns a context derived from ctx in which all spans are recorded, and those.
func New(ctx context.Context) (context.Context, *Spans) {
	s := &Spans{}
	t := &trace.Tracer{Sampling: trace.Sampling{Ratio: 1, ByParent: true}, Export: s.Add}
	return t.Into(ctx), s
}

// Add keeps a span that has ended.
func (s *Spans) Add(one *trace.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
}

// All returns the spans of one trace, or those of all when id is empty, by when they began.
func (s *Spans) All(id string) []*trace.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []*trace.Span
	for _, one := range s.all {
		if id == "" || one.Context.Trace.String() == id {
			some = append(some, one)
		}
	}
	slices.SortStableFunc(some, func(a, b *trace.Span) int {
		if c := a.Began.Compare(b.Began); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return some
}

// Tree returns the spans of a trace as a text: "submit(lease(attempt(fetch store) settle))". Spans whose parent was not
// recorded stand beside each other.
func (s *Spans) Tree(id string) string {
	all := s.All(id)
	known := map[trace.SpanID]bool{}
	for _, one := range all {
		known[one.Context.Span] = true
	}
	below := map[trace.SpanID][]*trace.Span{}
	for _, one := range all {
		parent := one.Parent
		if !known[parent] {
			parent = trace.SpanID{}
		}
		below[parent] = append(below[parent], one)
	}
	var text func(trace.SpanID) string
	text = func(parent trace.SpanID) string {
		var names []string
		for _, one := range below[parent] {
			name := one.Name
			if one.Failed {
				name += "!"
			}
			if more := text(one.Context.Span); more != "" {
				name += "(" + more + ")"
			}
			names = append(names, name)
		}
		return strings.Join(names, " ")
	}
	return text(trace.SpanID{})
}

// Await waits up to a minute until the spans of a trace are this tree.
func (s *Spans) Await(t *testing.T, id, tree string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if got = s.Tree(id); got == tree {
			return
		}
	}
	t.Errorf("spans of trace %s are\n%s\nwant\n%s", id, got, tree)
}

// Get returns an attribute of a span.
func Get(s *trace.Span, key string) string {
	for _, a := range s.Attrs {
		if a.Key == key {
			return a.Text
		}
	}
	return ""
}

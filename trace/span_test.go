package trace_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/trace"
)

// recorded returns a context in which spans are kept, and those.
func recorded(t *testing.T, s trace.Sampling) (context.Context, *[]*trace.Span) {
	t.Helper()
	var all []*trace.Span
	tracer := &trace.Tracer{Sampling: s, Export: func(s *trace.Span) { all = append(all, s) }}
	return tracer.Into(t.Context()), &all
}

func TestD32SpansAreLinked(t *testing.T) {
	ctx, all := recorded(t, trace.Sampling{Ratio: 1, ByParent: true})
	first, submit := trace.Start(ctx, "submit", trace.Producer)
	submit.Set("job", "a")
	submit.Set("empty", "")
	submit.SetNumber("attempt", 2)
	submit.End()
	submit.End() // once is enough

	// In another process.
	there := trace.With(ctx, trace.Of(first))
	began := time.Now().Add(-time.Minute)
	below, lease := trace.Start(there, "lease", trace.Consumer)
	lease.Since(began)
	_, step := trace.Start(below, "fetch", trace.Internal)
	step.EndWith(errors.New("no such file"))
	lease.EndWith(nil)

	if len(*all) != 3 {
		t.Fatalf("%d spans, want 3", len(*all))
	}
	a, b, c := (*all)[0], (*all)[2], (*all)[1]
	if a.Parent != (trace.SpanID{}) || b.Parent != a.Context.Span || c.Parent != b.Context.Span {
		t.Errorf("spans are not below each other: %+v, %+v, %+v", a, b, c)
	}
	if a.Context.Trace != b.Context.Trace || b.Context.Trace != c.Context.Trace {
		t.Errorf("they are of several traces: %+v, %+v, %+v", a, b, c)
	}
	if len(a.Attrs) != 2 || a.Attrs[0] != (trace.Attr{Key: "job", Text: "a"}) || a.Attrs[1] != (trace.Attr{Key: "attempt", Number: 2, Numeric: true}) {
		t.Errorf("attributes %+v", a.Attrs)
	}
	if !b.Began.Equal(began) || b.Failed || !c.Failed || c.Reason != "no such file" {
		t.Errorf("spans %+v, %+v", b, c)
	}
	if again, s := trace.Start(trace.Without(below), "other", trace.Internal); s.Parent != (trace.SpanID{}) || trace.IDOf(trace.Of(again)) == a.Context.Trace.String() {
		t.Errorf("a span below none is %+v", s)
	}
}

func TestD32LongTextsAreCut(t *testing.T) {
	ctx, all := recorded(t, trace.Sampling{Ratio: 1})
	_, s := trace.Start(ctx, "a", trace.Internal)
	s.Set("long", strings.Repeat("ä", 10_000))
	s.Fail(strings.Repeat("x", 10_000))
	s.End()
	if n := len((*all)[0].Attrs[0].Text); n != 1024 || len((*all)[0].Reason) != 1024 {
		t.Errorf("texts of %d and %d bytes, want 1024", n, len((*all)[0].Reason))
	}
}

func TestD32Sampling(t *testing.T) {
	const many = 20_000
	unsampled := strings.TrimSuffix(good, "1") + "0"
	tests := []struct {
		name   string
		s      trace.Sampling
		parent string
		want   float64
	}{
		{"all", trace.Sampling{Ratio: 1}, "", 1},
		{"none", trace.Sampling{}, good, 0},
		{"a tenth", trace.Sampling{Ratio: 0.1}, "", 0.1},
		{"all, as the parent", trace.Sampling{ByParent: true}, good, 1},
		{"none, as the parent", trace.Sampling{Ratio: 1, ByParent: true}, unsampled, 0},
		{"a half, without a parent", trace.Sampling{Ratio: 0.5, ByParent: true}, "", 0.5},
		{"all, whatever the parent", trace.Sampling{Ratio: 1}, unsampled, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, all := recorded(t, tt.s)
			ctx = trace.With(ctx, tt.parent)
			for range many {
				in, s := trace.Start(ctx, "a", trace.Internal)
				if got := trace.Parse(trace.Of(in)); !got.Valid() || got.Sampled != (s != nil) {
					t.Fatalf("context %+v of span %v", got, s)
				}
				s.End()
			}
			if got := float64(len(*all)) / many; got < tt.want-0.03 || got > tt.want+0.03 {
				t.Errorf("%.3f were recorded, want %.3f", got, tt.want)
			}
		})
	}
}

func TestD32LogLinesHaveTheTrace(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(trace.Handler(slog.NewTextHandler(&text, nil))).With("a", 1)
	log.InfoContext(t.Context(), "without")
	log.InfoContext(trace.With(t.Context(), good), "with")
	lines := strings.Split(text.String(), "\n")
	if strings.Contains(lines[0], "trace") || !strings.Contains(lines[1], "trace_id="+traceID) {
		t.Errorf("logged:\n%s", &text)
	}
}

// work is what a job costs in spans.
func work(ctx context.Context, parent string) {
	ctx, s := trace.Start(trace.With(ctx, parent), "attempt", trace.Internal)
	s.Set("job", "a")
	s.SetNumber("attempt", 1)
	_ = trace.Of(ctx)
	_, step := trace.Start(ctx, "fetch", trace.Internal)
	step.End()
	s.EndWith(nil)
}

func TestD32WithoutATracerNothingIsAllocated(t *testing.T) {
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() { work(ctx, "") }); n != 0 {
		t.Errorf("%.0f allocations a job, want none", n)
	}
	if n := testing.AllocsPerRun(1000, func() { work(ctx, "no traceparent") }); n != 0 {
		t.Errorf("%.0f allocations a job with a bad parent, want none", n)
	}
	if trace.On(ctx) || !trace.On((&trace.Tracer{}).Into(ctx)) {
		t.Error("On is wrong")
	}
}

func BenchmarkOff(b *testing.B) {
	b.ReportAllocs()
	ctx := b.Context()
	for b.Loop() {
		work(ctx, "")
	}
}

func BenchmarkOn(b *testing.B) {
	b.ReportAllocs()
	ctx := (&trace.Tracer{Sampling: trace.Sampling{Ratio: 1}, Export: func(*trace.Span) {}}).Into(b.Context())
	for b.Loop() {
		work(ctx, "")
	}
}

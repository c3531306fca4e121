package trace

import (
	"context"
	"encoding/binary"
	"time"
)

// Tracer records spans. It does not change once it is in use.
type Tracer struct {
	Sampling Sampling
	// Export is given each span that was recorded, at its end, and may keep it. It must not block.
	Export func(*Span)
}

// Sampling says which traces are recorded. The zero value records none.
type Sampling struct {
	Ratio    float64 // of the traces, from 0 to 1
	ByParent bool    // Ratio is for traces that begin here; others go on as they were begun
}

func (s Sampling) sampled(parent Context, id ID) bool {
	if s.ByParent && parent.Valid() {
		return parent.Sampled
	}
	// The same part of the id as in other programs, so that all choose the same traces.
	return float64(binary.BigEndian.Uint64(id[8:])>>1) < s.Ratio*(1<<63)
}

type placeKey struct{}

// place is where work is done: who records, and in which span.
type place struct {
	tracer *Tracer
	at     Context
}

func placeOf(ctx context.Context) place {
	if p, ok := ctx.Value(placeKey{}).(*place); ok {
		return *p
	}
	return place{}
}

func (p place) in(ctx context.Context) context.Context { return context.WithValue(ctx, placeKey{}, &p) }

// Into returns a context in which [Start] makes spans.
func (t *Tracer) Into(ctx context.Context) context.Context {
	p := placeOf(ctx)
	p.tracer = t
	return p.in(ctx)
}

// On reports whether [Start] makes spans under ctx.
func On(ctx context.Context) bool { return placeOf(ctx).tracer != nil }

// With returns a context under which spans are children of a traceparent that came from elsewhere. What
// is no traceparent is ignored: then ctx is returned as it is.
func With(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	p := placeOf(ctx)
	if at := Parse(traceparent); at.Valid() && at != p.at {
		p.at = at
		return p.in(ctx)
	}
	return ctx
}

// Without returns a context under which the next span begins a trace.
func Without(ctx context.Context) context.Context {
	p := placeOf(ctx)
	if !p.at.Valid() {
		return ctx
	}
	p.at = Context{}
	return p.in(ctx)
}

// Of returns the traceparent of the span that ctx is in, or that came with [With]; empty if there is
// none.
func Of(ctx context.Context) string { return placeOf(ctx).at.String() }

// Start begins a span below the one that ctx is in, or a new trace, and returns the context of what is
// done in it. Without a [Tracer] it returns ctx and nil and costs nothing. A span that Sampling leaves
// out is nil as well, while its context names it.
func Start(ctx context.Context, name string, kind Kind) (context.Context, *Span) {
	p := placeOf(ctx)
	if p.tracer == nil {
		return ctx, nil
	}
	parent := p.at
	id := parent.Trace
	if !parent.Valid() {
		id = newID()
	}
	p.at = Context{Trace: id, Span: newSpanID(), Sampled: p.tracer.Sampling.sampled(parent, id)}
	if !p.at.Sampled {
		return p.in(ctx), nil
	}
	s := &Span{Context: p.at, Parent: parent.Span, Name: name, Kind: kind, Began: time.Now(), tracer: p.tracer}
	return p.in(ctx), s
}

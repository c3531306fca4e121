package worker

import (
	"context"
	"sync"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/trace"
)

// The attributes of spans of jobs.
const (
	attrJob     = "batchfleet.job.id"
	attrKind    = "batchfleet.job.kind"
	attrAttempt = "batchfleet.attempt"
	attrOutcome = "batchfleet.outcome"
	attrCode    = "batchfleet.code"
)

// leaseSpan begins the span of a lease, below that of the job's submission. A job that came without a trace gets one.
func leaseSpan(ctx context.Context, lease *jobs.Lease) (context.Context, *trace.Span) {
	if !trace.On(ctx) || lease.Job.ID == "" {
		return ctx, nil
	}
	ctx, span := trace.Start(ctx, "lease", trace.Consumer)
	if !trace.Parse(lease.Job.Trace).Valid() {
		lease.Job.Trace = trace.Of(ctx)
	}
	span.Set(attrJob, string(lease.Job.ID))
	span.Set(attrKind, string(lease.Job.Kind))
	return ctx, span
}

// startAttempt begins the span of an attempt. The job that its handler gets has it as its trace, and so have the
// programs that it runs.
func (a *attempt) startAttempt(ctx context.Context, job jobs.Job) (context.Context, *trace.Span, jobs.Job) {
	ctx, span := trace.Start(ctx, "attempt", trace.Internal)
	if trace.On(ctx) {
		job.Trace = trace.Of(ctx)
	}
	span.Set(attrJob, string(job.ID))
	span.SetNumber(attrAttempt, a.claim.Attempt)
	return ctx, span, job
}

// endAttempt ends it with what has come of it.
func endAttempt(span *trace.Span, o jobs.Outcome, err error) {
	switch {
	case span == nil:
		return
	case err != nil:
		span.Set(attrOutcome, "handed back")
		span.Fail(err.Error())
	case o.Retry:
		span.Set(attrOutcome, "retry")
	default:
		span.Set(attrOutcome, o.State.String())
	}
	if o.State == jobs.Failed {
		span.Set(attrCode, o.Code)
		span.Fail(o.Reason)
	}
	span.End()
}

// stepSpans are the spans of an attempt's steps, one after the other. Reports may come from several goroutines, and
// from a handler that was abandoned.
type stepSpans struct {
	ctx context.Context // the attempt's

	mu   sync.Mutex
	name string
	span *trace.Span
	over bool
}

// step begins the span of a step, unless it is the one that is under way.
func (s *stepSpans) step(name string) {
	if name == "" || s.ctx == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == s.name || s.over {
		return
	}
	s.span.End()
	s.name = name
	_, s.span = trace.Start(s.ctx, name, trace.Internal)
}

// end ends the last step, in which the attempt has failed unless err is nil.
func (s *stepSpans) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.span.EndWith(err)
}

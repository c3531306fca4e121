package member

import (
	"context"
	"errors"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// Handler returns h for the loop's Handlers. What a failure of h has as its detail, a JobResult, reaches the leader as it is, and also
// when the job was canceled or took too long. Without this, the loop would take what looks like a secret out of it.
func (m *Member) Handler(h worker.Handler) worker.Handler { return handler{h, m} }

type handler struct {
	worker.Handler
	member *Member
}

// Run implements worker.Handler.
func (h handler) Run(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	result, err := h.Handler.Run(of(ctx, job.ID), job, report)
	return result, h.member.takeDetail(ctx, job.ID, err)
}

// RunAttempt implements worker.AttemptHandler, if the handler does.
func (h handler) RunAttempt(ctx context.Context, a jobs.Attempt) (jobs.Result, error) {
	inner, ok := h.Handler.(worker.AttemptHandler)
	if !ok {
		return h.Run(ctx, a.Job, a.Report)
	}
	result, err := inner.RunAttempt(of(ctx, a.Job.ID), a)
	return result, h.member.takeDetail(ctx, a.Job.ID, err)
}

// TimeLimit implements worker.TimeLimiter.
func (h handler) TimeLimit() time.Duration {
	if inner, ok := h.Handler.(worker.TimeLimiter); ok {
		return inner.TimeLimit()
	}
	return 0
}

// takeDetail keeps the detail of a failure with its job, and returns the failure without it.
func (m *Member) takeDetail(ctx context.Context, id jobs.ID, err error) error {
	f, ok := errors.AsType[*jobs.Failure](err)
	if !ok || f.Detail == "" {
		return err
	}
	if !lostLease(context.Cause(ctx)) { // otherwise the job may be in hand again
		m.Failed(jobs.Job{ID: id}, []byte(f.Detail))
	}
	without := *f
	without.Detail = ""
	return &without
}

// Failed keeps the JobResult of an attempt that fails, for a handler that calls it before it returns its failure without that. It is for
// the Failed of an exec's handler.
func (m *Member) Failed(job jobs.Job, result []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.find(job.ID); r != nil {
		r.detail = string(result)
	}
}

func parseID(id jobs.ID) (wire.GUID, error) { return wire.ParseGUID(string(id)) }

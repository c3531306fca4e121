package member

import (
	"context"
	"errors"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// Handler wraps h for the loop's Handlers. The detail of a failure of h, a JobResult, reaches the leader unchanged, also when the job was canceled or
// took too long. The loop itself would redact it.
func (m *Member) Handler(h worker.Handler) worker.Handler { return handler{h, m} }

type handler struct {
	worker.Handler
	member *Member
}

// Run implements worker.Handler.
func (h handler) Run(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	result, err := h.Handler.Run(withJob(ctx, job.ID), job, report)
	return result, h.member.takeDetail(ctx, job.ID, err)
}

// RunAttempt implements worker.AttemptHandler, if the handler does.
func (h handler) RunAttempt(ctx context.Context, a jobs.Attempt) (jobs.Result, error) {
	inner, ok := h.Handler.(worker.AttemptHandler)
	if !ok {
		return h.Run(ctx, a.Job, a.Report)
	}
	result, err := inner.RunAttempt(withJob(ctx, a.Job.ID), a)
	return result, h.member.takeDetail(ctx, a.Job.ID, err)
}

// TimeLimit implements worker.TimeLimiter.
func (h handler) TimeLimit() time.Duration {
	if inner, ok := h.Handler.(worker.TimeLimiter); ok {
		return inner.TimeLimit()
	}
	return 0
}

// takeDetail keeps the detail of a failure for its job, and returns the failure without it.
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

// Failed keeps the JobResult of an attempt that has failed. A handler may call it before it returns a failure without detail; it is for the Failed of
// an exec's handler.
func (m *Member) Failed(job jobs.Job, result []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.find(job.ID); r != nil {
		r.detail = string(result)
	}
}

func parseID(id jobs.ID) (wire.GUID, error) { return wire.ParseGUID(string(id)) }

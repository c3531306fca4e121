package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

func lostLease(err error) bool { return errors.Is(err, jobs.ErrLeaseLost) }

// Claim implements worker.Status. A job is in hand once, so the holder of its lease may run it.
func (m *Member) Claim(_ context.Context, job jobs.Job, _ time.Duration, _ jobs.Claim) (jobs.Claim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.find(job.ID)
	if r == nil || lostLease(r.stop()) {
		return jobs.Claim{Verdict: jobs.Busy, Job: job.ID}, nil
	}
	// One that was canceled just now is stopped by its first report.
	return jobs.Claim{Verdict: jobs.Granted, Job: job.ID, Token: r.lease, Attempt: 1}, nil
}

// find returns the run of a job, or nil. m.mu is held.
func (m *Member) find(id jobs.ID) *run {
	job, err := parseID(id)
	if err != nil {
		return nil
	}
	return m.runs[job]
}

// Report implements worker.Status. It passes messages and lines on to leaders with the feature report, but not before the job is accepted: short jobs
// send none. The error wraps [jobs.ErrCanceled] if the leader wants the job to stop, and [jobs.ErrLeaseLost] if it wants no
// result from this worker any more.
func (m *Member) Report(_ context.Context, c jobs.Claim, _ time.Duration, p *jobs.Progress, lines jobs.Lines) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.leases[c.Token]
	if r == nil {
		return fmt.Errorf("%w: the job is no longer in hand", jobs.ErrLeaseLost)
	}
	r.note(p, lines.Text)
	if r.accepted {
		r.sendReport()
	}
	return r.stop()
}

// Finish implements worker.Status. When it returns nil, the result is on disk, or in memory if it cannot be written, and [Member.Run] delivers
// it. The error wraps [jobs.ErrLeaseLost] if the job is no longer in hand.
func (m *Member) Finish(_ context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	m.mu.Lock()
	r := m.leases[c.Token]
	if r == nil {
		m.mu.Unlock()
		return 0, fmt.Errorf("finish job %s: %w: it is no longer in hand", c.Job, jobs.ErrLeaseLost)
	}
	detail := r.detail
	m.mu.Unlock()
	m.finish(r, m.resultOf(r, o, detail), r.again(o))
	return o.State, nil
}

// Retry implements worker.Status. It delivers the failure; the leader decides whether the job runs again.
func (m *Member) Retry(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	if _, err := m.Finish(ctx, c, o); err != nil {
		return 0, err
	}
	return jobs.Queued, nil
}

// Release implements worker.Status. The lease is handed back next, unless the message is empty: then it is lost.
func (m *Member) Release(_ context.Context, c jobs.Claim, message string) error {
	if message != "" {
		return nil
	}
	m.mu.Lock()
	if r := m.leases[c.Token]; r != nil {
		m.drop(r)
	}
	m.mu.Unlock()
	m.grantAll()
	return nil
}

package member

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// Lease implements worker.Source. When there has been no connection to a leader for a while, its error says why; it wraps
// worker.ErrRefused if no leader takes this worker.
func (m *Member) Lease(ctx context.Context) (jobs.Lease, error) {
	m.ask()
	for ctx.Err() == nil {
		m.mu.Lock()
		if len(m.waiting) > 0 {
			r := m.take()
			m.mu.Unlock()
			return m.leaseOn(r), nil
		}
		wait, err := m.outage()
		changed := m.changed
		m.mu.Unlock()
		if err != nil {
			m.stopAsking()
			return jobs.Lease{}, err
		}
		m.awaitJob(ctx, changed, wait)
	}
	m.stopAsking()
	return jobs.Lease{}, context.Cause(ctx)
}

// take gives a slot that asks the job that has waited longest. m.mu is held.
func (m *Member) take() *run {
	r := m.waiting[0]
	m.waiting = m.waiting[1:]
	m.asking--
	r.waits = false
	if len(m.waiting) > 0 {
		m.announce() // another slot may wait
	}
	return r
}

// awaitJob waits until it is worth looking again, or ctx ends: at most for wait, unless that is zero.
func (m *Member) awaitJob(ctx context.Context, changed <-chan struct{}, wait time.Duration) {
	var again <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-m.work:
	case <-changed:
	case <-again:
	case <-ctx.Done():
	}
}

// request is what this end must know of a JobRequest.
type request struct {
	JobID    wire.GUID  `json:"JobId"`
	ClientID string     `json:"ClientId"`
	ExecName string     `json:"ExecName"`
	Index    *int64     `json:"Index"`
	ArrayID  *wire.GUID `json:"ArrayId"`
	Trace    string     `json:"Trace"`
	RetryOn  []string   `json:"RetryOn"`
}

// request reads what the leader has assigned. The error is the job's own: no worker can run it.
func (r *run) request() (request, error) {
	var q request
	err := json.Unmarshal(r.payload, &q)
	switch {
	case err != nil:
		err = fmt.Errorf("the request is no JobRequest: %w", err)
	case q.JobID != r.id:
		err = fmt.Errorf("the request is that of job %s, and was assigned as job %s", q.JobID, r.id)
	}
	if err != nil {
		return q, &jobs.Failure{Code: "REJECTED", Final: true, Err: err}
	}
	return q, nil
}

// leaseOn returns the lease on a job.
func (m *Member) leaseOn(r *run) jobs.Lease {
	q, err := r.request()
	return jobs.Lease{
		ID:    r.lease,
		Job:   jobs.Job{ID: jobs.ID(r.id.String()), Kind: Kind, Submitted: r.began, Trace: q.Trace, Payload: string(r.payload)},
		Until: time.Now().Add(m.KeepRunning), TTL: m.KeepRunning,
		Delivery: 1, Invalid: err,
		Raw: jobs.Raw{ID: r.lease, Data: r.payload},
	}
}

// Extend implements worker.Source. Lost are the leases on jobs that no leader wants from this worker any more. It returns no error: while
// a leader is away its jobs go on, see [Member.KeepRunning].
func (m *Member) Extend(_ context.Context, leases []jobs.Lease, _ time.Duration) (lost map[string]error, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lost = map[string]error{}
	for _, l := range leases {
		if r := m.leases[l.ID]; r != nil { // otherwise it has just ended
			if stop := r.stop(); lostLease(stop) {
				lost[l.ID] = stop
			}
		}
	}
	return lost, nil
}

// Ack implements worker.Source. The result has ended the lease already.
func (*Member) Ack(context.Context, jobs.Lease) error { return nil }

// Nack implements worker.Source: the job gets no result from this attempt. A leader that does not understand that notices that the job is
// no longer renewed. So its place is free only after delay, when that has happened.
func (m *Member) Nack(_ context.Context, lease jobs.Lease, delay time.Duration) error {
	m.mu.Lock()
	r := m.leases[lease.ID]
	if r == nil {
		m.mu.Unlock()
		return nil
	}
	m.remove(r)
	why := busy
	if delay == 0 {
		why = draining
	}
	m.handBack(r, why)
	m.mu.Unlock()
	time.AfterFunc(delay, m.freeing(r))
	return nil
}

// freeing returns what frees the places of a job that was handed back, unless the connection has ended by then: the next one counts
// them again.
func (m *Member) freeing(r *run) func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	sessions := make([]*session, len(r.attempts))
	for i, a := range r.attempts {
		sessions[i] = a.peer.session
	}
	return func() {
		m.mu.Lock()
		for i, a := range r.attempts {
			if a.peer.session == sessions[i] && sessions[i] != nil {
				a.peer.places -= a.places
			}
		}
		m.mu.Unlock()
		m.grantAll()
	}
}

// Probe implements worker.Prober: it returns nil while there is a connection to a leader.
func (m *Member) Probe(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down.IsZero() {
		return nil
	}
	if _, err := m.outage(); err != nil {
		return err
	}
	return fmt.Errorf("%w: no connection to a leader yet", jobs.ErrUnavailable)
}

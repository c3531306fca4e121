package sim

import (
	"context"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/status"
)

// watchedSource tells the ledger what a worker says of its leases.
type watchedSource struct {
	*pubsub.Source
	ledger *ledger
	p      *process
}

// Lease implements worker.Source.
func (s watchedSource) Lease(ctx context.Context) (jobs.Lease, error) {
	l, err := s.Source.Lease(ctx)
	if err == nil {
		s.ledger.leased(s.p, l)
	}
	return l, err
}

// Extend implements worker.Source.
func (s watchedSource) Extend(ctx context.Context, leases []jobs.Lease, ttl time.Duration) (map[string]error, error) {
	lost, err := s.Source.Extend(ctx, leases, ttl)
	for id := range lost {
		s.ledger.settled(id)
	}
	return lost, err
}

// Ack implements worker.Source.
func (s watchedSource) Ack(ctx context.Context, l jobs.Lease) error {
	s.ledger.settled(l.ID)
	s.ledger.acking(s.p.name, l.Job.ID)
	return s.Source.Ack(ctx, l)
}

// Nack implements worker.Source.
func (s watchedSource) Nack(ctx context.Context, l jobs.Lease, delay time.Duration) error {
	s.ledger.settled(l.ID)
	return s.Source.Nack(ctx, l, delay)
}

// watchedStatus tells the ledger of leases that a worker gives up as lost.
type watchedStatus struct {
	*status.Store
	ledger *ledger
	p      *process
}

// Release implements worker.Status.
func (s watchedStatus) Release(ctx context.Context, c jobs.Claim, message string) error {
	if message == "" {
		s.ledger.gaveUp(s.p, c.Job)
	}
	return s.Store.Release(ctx, c, message)
}

// heldLease is a lease that a worker has to end.
type heldLease struct {
	p     *process
	job   jobs.ID
	taken time.Time
}

func (l *ledger) leased(p *process, lease jobs.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases[lease.ID] = heldLease{p, lease.Job.ID, time.Now()}
}

// settled is told that a lease was acked, handed back or lost.
func (l *ledger) settled(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leases, id)
}

// gaveUp is told that a worker leaves a job to others, who have its lease.
func (l *ledger) gaveUp(p *process, id jobs.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for lease, h := range l.leases {
		if h.p == p && h.job == id {
			delete(l.leases, lease)
		}
	}
}

// left checks that a worker that has ended by itself has no lease left.
func (l *ledger) left(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, h := range l.leases {
		if h.p != p {
			continue
		}
		delete(l.leases, id)
		if !p.isDead() && !l.w.excused(p.name) {
			l.broken("%s has ended and has neither acked nor handed back job %s", p.name, h.job)
		}
	}
	l.w.ended(p)
}

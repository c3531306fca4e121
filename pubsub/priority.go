package pubsub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/metrics"
	"github.com/batchfleet/batchfleet/worker"
)

// PrioritySource is a [worker.Source] over two others. It asks Priority first and,
// while that has nothing, both at once, so that a job of either starts as soon as it
// comes.
//
// Every Share-th lease is taken from Normal first. While both always have jobs, one
// job in Share is a normal one.
type PrioritySource struct {
	Priority, Normal worker.Source
	Share            int                // at least 2
	Leases           prometheus.Counter // of leases taken from Priority; see [PriorityLeases]

	turns    atomic.Int64
	dryUntil atomic.Int64   // until when Normal is not waited for, in nanoseconds since 1970
	calls    sync.WaitGroup // under way, also those that were called off
	failing  [2]atomic.Bool // priority, normal: the last call has failed
}

// PriorityLeases returns the counter for [PrioritySource.Leases], registered at r.
func PriorityLeases(r prometheus.Registerer) prometheus.Counter {
	return metrics.In(r, "batchfleet_").Counter("leases_priority_total", "Leases taken from the priority subscription.")
}

const (
	// headStart is what the source that is asked first gets before the other is
	// asked too: a pull of a subscription with messages is answered by then.
	headStart = 50 * time.Millisecond
	// turnStart is what Normal gets when it is its turn. It is long, so that a slow
	// reply does not cost Normal its share. If nothing came in that time, Normal
	// gets only headStart until dryFor has passed.
	turnStart = time.Second
	dryFor    = 10 * time.Second
)

// errCalledOff is the cause with which the slower call is canceled.
var errCalledOff = errors.New("the other source was faster")

// leaseCall is one call of Lease on one of the two.
type leaseCall struct {
	side   side
	cancel context.CancelCauseFunc
	reply  chan reply // of 1
}

type reply struct {
	lease jobs.Lease
	err   error
}

// side is one of the two sources. The ids of its leases begin with prefix, by which
// later calls find their source.
type side struct {
	src     worker.Source
	prefix  string
	failing *atomic.Bool
}

const (
	priorityPrefix = "urgent/"
	normalPrefix   = "normal/"
)

func (p *PrioritySource) priority() side { return side{p.Priority, priorityPrefix, &p.failing[0]} }
func (p *PrioritySource) normal() side   { return side{p.Normal, normalPrefix, &p.failing[1]} }

// order returns which source to ask first, and for how long alone.
func (p *PrioritySource) order() (first, second side, start time.Duration) {
	priority, normal := p.priority(), p.normal()
	switch turn := p.turns.Add(1)%int64(p.Share) == 0; {
	case priority.failing.Load():
		return priority, normal, headStart
	case normal.failing.Load():
		return normal, priority, headStart
	case turn && time.Now().UnixNano() >= p.dryUntil.Load():
		return normal, priority, turnStart
	case turn:
		return normal, priority, headStart
	default:
		return priority, normal, headStart
	}
}

// Lease implements [worker.Source]. An error of either source is returned, and the
// source that failed is asked first until it works. So a worker that gets jobs from
// only one of them does not look healthy.
func (p *PrioritySource) Lease(ctx context.Context) (jobs.Lease, error) {
	before, after, start := p.order()
	first := p.startLease(ctx, before)
	ahead := time.NewTimer(start)
	defer ahead.Stop()
	select {
	case got := <-first.reply:
		return p.take(first.side, got)
	case <-ahead.C:
		if start == turnStart {
			p.dryUntil.Store(time.Now().Add(dryFor).UnixNano())
		}
	}
	second := p.startLease(ctx, after)
	select {
	case got := <-first.reply:
		p.callOff(ctx, second)
		return p.take(first.side, got)
	case got := <-second.reply:
		select {
		case better := <-first.reply:
			if better.err == nil {
				second.reply <- got
				p.callOff(ctx, second)
				return p.take(first.side, better)
			}
		default:
			p.callOff(ctx, first)
		}
		return p.take(second.side, got)
	}
}

// Probe implements [worker.Prober], as far as the two sources do.
func (p *PrioritySource) Probe(ctx context.Context) error {
	var errs []error
	for _, s := range []side{p.priority(), p.normal()} {
		if prober, ok := s.src.(worker.Prober); ok {
			errs = append(errs, prober.Probe(ctx))
		}
	}
	return errors.Join(errs...)
}

// startLease starts a call of Lease on one of the sources.
func (p *PrioritySource) startLease(ctx context.Context, s side) leaseCall {
	ctx, cancel := context.WithCancelCause(ctx)
	q := leaseCall{side: s, cancel: cancel, reply: make(chan reply, 1)}
	p.calls.Go(func() {
		lease, err := s.src.Lease(ctx)
		s.failing.Store(err != nil && ctx.Err() == nil)
		q.reply <- reply{lease, err}
		cancel(nil)
	})
	return q
}

// take returns a reply, with its lease id prefixed.
func (p *PrioritySource) take(s side, got reply) (jobs.Lease, error) {
	if got.err != nil {
		return jobs.Lease{}, got.err
	}
	if s.prefix == priorityPrefix {
		p.Leases.Inc()
	} else {
		p.dryUntil.Store(0)
	}
	got.lease.ID = s.prefix + got.lease.ID
	return got.lease, nil
}

// callOff cancels a call. Its reply may be on the way, so a lease that still
// comes is handed back, while the caller goes on.
func (p *PrioritySource) callOff(ctx context.Context, q leaseCall) {
	q.cancel(errCalledOff)
	p.calls.Go(func() {
		got := <-q.reply
		if got.err != nil {
			return
		}
		if q.side.prefix == normalPrefix {
			p.dryUntil.Store(0)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		_ = q.side.src.Nack(ctx, got.lease, 0) // if it fails, the job waits until the lease ends
	})
}

// Close waits for calls that were called off. It comes after the last call of
// Lease, and closes neither source.
func (p *PrioritySource) Close() error {
	p.calls.Wait()
	return nil
}

// Extend implements [worker.Source].
func (p *PrioritySource) Extend(ctx context.Context, leases []jobs.Lease, ttl time.Duration) (map[string]error, error) {
	var errs []error
	lost := map[string]error{}
	for _, s := range []side{p.priority(), p.normal()} {
		var own []jobs.Lease
		for _, l := range leases {
			if id, ok := strings.CutPrefix(l.ID, s.prefix); ok {
				l.ID = id
				own = append(own, l)
			}
		}
		if len(own) == 0 {
			continue
		}
		lostHere, err := s.src.Extend(ctx, own, ttl)
		errs = append(errs, err)
		for id, cause := range lostHere {
			lost[s.prefix+id] = cause
		}
	}
	return lost, errors.Join(errs...)
}

// Ack implements [worker.Source].
func (p *PrioritySource) Ack(ctx context.Context, lease jobs.Lease) error {
	s, lease, err := p.route(lease)
	if err != nil {
		return err
	}
	return s.Ack(ctx, lease)
}

// Nack implements [worker.Source].
func (p *PrioritySource) Nack(ctx context.Context, lease jobs.Lease, delay time.Duration) error {
	s, lease, err := p.route(lease)
	if err != nil {
		return err
	}
	return s.Nack(ctx, lease, delay)
}

// HandBack implements [worker.HandBacker]: both subscriptions are on one connection.
func (p *PrioritySource) HandBack(ctx context.Context, queue string, acks []string) error {
	r, ok := p.Normal.(worker.HandBacker)
	if !ok {
		return fmt.Errorf("%w: a source that hands back only its own leases", worker.ErrRefused)
	}
	return r.HandBack(ctx, queue, acks)
}

// route returns the source of a lease, and the lease as that source knows it.
func (p *PrioritySource) route(lease jobs.Lease) (worker.Source, jobs.Lease, error) {
	for _, s := range []side{p.priority(), p.normal()} {
		if id, ok := strings.CutPrefix(lease.ID, s.prefix); ok {
			lease.ID = id
			return s.src, lease, nil
		}
	}
	return nil, lease, fmt.Errorf("lease %.40q is of neither source", lease.ID)
}

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/trace"
)

// Pool is a number of slots for the jobs of some kinds, so that a kind whose slots
// are all taken does not keep the others from running.
type Pool struct {
	Name  string      // for people
	Kinds []jobs.Kind // whose jobs it runs; empty for all kinds that no other pool names
	Slots int         // jobs at once; 0 means one for each GPU, or 1
	// GPUs are the indices of GPUs of this machine. Each slot has an equal share of them
	// for itself. Empty for none.
	GPUs []int
}

// KindSource is a [Source] that can be asked for jobs of some kinds. A worker with
// several pools asks it for the kinds that it has a free slot for; other sources hand
// out jobs of whatever kind, and those with no free slot are handed back.
type KindSource interface {
	Source
	// LeaseKinds is Lease for jobs of the given kinds. It may also return a message that
	// names no job; jobs of other kinds wait.
	LeaseKinds(ctx context.Context, kinds []jobs.Kind) (jobs.Lease, error)
}

// pools are the slots of a worker.
type pools struct {
	all    []*pool
	byKind map[jobs.Kind]*pool
	rest   *pool      // for kinds that no pool names: the one without kinds, or else the first
	source KindSource // nil if leases cannot be, or need not be, chosen by kind
}

type pool struct {
	slots int
	free  chan jobs.Slot // holds those that no job has
}

// newPools checks the pools of a worker and fills them with free slots.
func newPools(w *Worker) (*pools, error) {
	ps := &pools{byKind: map[jobs.Kind]*pool{}}
	var errs []error
	gpus := map[int]bool{}
	for _, c := range w.Pools {
		p := &pool{slots: c.Slots}
		if p.slots == 0 {
			p.slots = max(1, len(c.GPUs))
		}
		share := len(c.GPUs) / max(1, p.slots)
		if p.slots < 0 || share*p.slots != len(c.GPUs) {
			errs = append(errs, fmt.Errorf("pool %q: %d GPUs cannot be shared out to %d slots", c.Name, len(c.GPUs), c.Slots))
			continue
		}
		p.free = make(chan jobs.Slot, p.slots)
		for n := range p.slots {
			p.free <- jobs.Slot{Pool: c.Name, GPUs: c.GPUs[n*share : (n+1)*share : (n+1)*share]}
		}
		for _, gpu := range c.GPUs {
			if gpus[gpu] {
				errs = append(errs, fmt.Errorf("pool %q: GPU %d has a place already", c.Name, gpu))
			}
			gpus[gpu] = true
		}
		for _, kind := range c.Kinds {
			if ps.byKind[kind] != nil {
				errs = append(errs, fmt.Errorf("pool %q: kind %q has a pool already", c.Name, kind))
			}
			ps.byKind[kind] = p
		}
		if len(c.Kinds) == 0 {
			if ps.rest != nil {
				errs = append(errs, fmt.Errorf("pool %q: another one takes all other kinds already", c.Name))
			}
			ps.rest = p
		}
		ps.all = append(ps.all, p)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if ps.rest == nil {
		ps.rest = ps.all[0]
	}
	if len(ps.all) > 1 {
		ps.source, _ = w.Source.(KindSource)
	}
	return ps, nil
}

// slots returns how many jobs may run at once.
func (ps *pools) slots() (n int) {
	for _, p := range ps.all {
		n += p.slots
	}
	return n
}

// of returns the pool for jobs of a kind.
func (ps *pools) of(kind jobs.Kind) *pool { return cmp.Or(ps.byKind[kind], ps.rest) }

// take returns a free slot, and false if there is none.
func (p *pool) take() (jobs.Slot, bool) {
	select {
	case s := <-p.free:
		return s, true
	default:
		return jobs.Slot{}, false
	}
}

// fullPause is the pause after a job whose kind has no free slot, or no handler. It bounds how
// fast a slot goes through a queue of such jobs.
const fullPause = 50 * time.Millisecond

// fullDelay is for how long such a job is handed back: 10 to 20 s, at random so that
// they do not come back together.
func fullDelay() time.Duration { return 10*time.Second + rand.N(10*time.Second) }

// serve takes leases, one after the other, and runs their jobs. There is one call for
// each slot, so a slot is free whenever it leases. If the source chooses by
// kind, that is one of own; otherwise the job's kind may be a full one.
func (w *Worker) serve(leasing, work context.Context, own *pool) error {
	for {
		lease, err := w.lease(leasing, own)
		if leasing.Err() != nil {
			if err == nil {
				// The lease was on its way when the worker was told to stop.
				w.nack(work, lease, 0)
			}
			return nil
		}
		if err != nil {
			return err
		}
		work := trace.With(work, lease.Job.Trace)
		h := w.current().byKind[lease.Job.Kind] // asked for once: it may be replaced
		if h == nil && w.leave(work, lease) {
			_ = jobs.Sleep(leasing, fullPause)
			continue
		}
		if w.leavePaused(work, lease) {
			_ = jobs.Sleep(leasing, fullPause)
			continue
		}
		w.idle.busy()
		p := own
		if w.pools.source == nil {
			p = w.pools.of(lease.Job.Kind)
		}
		slot, free := p.take()
		if !free {
			w.handBackFull(work, lease)
			_ = jobs.Sleep(leasing, fullPause)
			continue
		}
		running := w.run(work, lease, h, slot)
		if running != nil && len(slot.GPUs) > 0 {
			select {
			case <-running:
			case <-leasing.Done():
				return nil
			}
		}
		p.free <- slot
	}
}

// handBackFull hands a job back whose kind has no free slot. It was not claimed, so its
// status stays as it is.
func (w *Worker) handBackFull(work context.Context, lease jobs.Lease) {
	delay := fullDelay()
	w.Log.DebugContext(work, "no free slot for this kind, job handed back", "job", lease.Job.ID, "kind", lease.Job.Kind, "retry_in", delay)
	w.Metrics.handedBack.WithLabelValues("pool_full").Inc()
	w.nack(work, lease, delay)
}

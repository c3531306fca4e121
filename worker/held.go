package worker

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/trace"
)

// held is the set of leases a worker holds. One goroutine extends them all,
// because one call can extend many.
type held struct {
	src     Source
	ttl     time.Duration
	every   time.Duration
	log     *slog.Logger
	metrics *Metrics
	wake    chan struct{} // a lease was added

	mu     sync.Mutex
	leases map[string]*heldLease
	next   time.Time // when extend looks at the leases again, unless it is woken
}

// heldLease is one lease with the job that runs under it.
type heldLease struct {
	lease jobs.Lease
	ttl   time.Duration           // what an extension brings
	every time.Duration           // between extensions
	stop  context.CancelCauseFunc // ends the job

	// Guarded by held.mu.
	until time.Time // wall clock and monotonic
	due   time.Time // when to extend next
	last  *time.Timer
	busy  chan struct{} // closed when the extension in flight has ended; nil if there is none
}

func newHeld(src Source, ttl, every time.Duration, log *slog.Logger, m *Metrics) *held {
	return &held{
		src: src, ttl: ttl, every: every, log: log, metrics: m,
		wake: make(chan struct{}, 1), leases: map[string]*heldLease{},
	}
}

// count returns how many leases are held.
func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.leases)
}

// margin is how long before the end of its lease a job is stopped, so that it
// has ended when the source gives it to another worker: 30 s of a 600 s lease.
func (x *heldLease) margin() time.Duration { return x.ttl / 20 }

// extendTimeout is how long one extension call may take: 10 s for a 600 s lease. It is
// less than the margin, so that a call does not outlive its lease, unless a lease lasts
// less than 5 s: no call would succeed in so little time.
func (x *heldLease) extendTimeout() time.Duration { return max(x.ttl/60, 250*time.Millisecond) }

// retry is how long to wait after a failed extension: 5 to 10 s for a 600 s
// lease, at random, so that a fleet does not retry in step.
func (x *heldLease) retry() time.Duration {
	base := x.ttl / 120
	return base + rand.N(base+1)
}

// add takes charge of a lease until its release. stop is called, with a cause that
// wraps jobs.ErrLeaseLost, when the lease is lost or is about to end. A lease whose
// end is unknown or near is extended at once.
func (h *held) add(lease jobs.Lease, stop context.CancelCauseFunc) *heldLease {
	now := time.Now()
	x := &heldLease{lease: lease, ttl: h.ttl, every: h.every, stop: stop, until: lease.Until, due: now}
	if lease.TTL > 0 {
		x.ttl, x.every = lease.TTL, lease.TTL/3 // one lost call is not yet a lost lease
	}
	if left := lease.Until.Sub(now); left > x.every {
		x.due = now.Add(x.every)
	} else if left <= x.margin() {
		x.until = now.Add(x.margin() + x.extendTimeout()) // time for the extension that is due now
	}
	h.mu.Lock()
	x.last = time.AfterFunc(time.Until(x.until)-x.margin(), func() { h.expire(x) })
	h.leases[lease.ID] = x
	sooner := x.due.Before(h.next) || now.Add(x.margin()).Before(h.next)
	h.mu.Unlock()
	if sooner { // seldom: a look at all leases for each new one would cost more than a short job
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
	return x
}

// release stops extending a lease, and waits a moment for an extension that is under
// way: it must not arrive after the ack or nack.
func (h *held) release(x *heldLease) {
	h.mu.Lock()
	x.last.Stop()
	delete(h.leases, x.lease.ID)
	busy := x.busy
	h.mu.Unlock()
	if busy == nil {
		return
	}
	patience := time.NewTimer(finalCallTimeout)
	defer patience.Stop()
	select {
	case <-busy:
	case <-patience.C:
	}
}

// left returns how long the lease still holds, 0 if it is over. Timers stand
// still while a machine sleeps and the source's clock does not, so the wall
// clock counts as well as the monotonic one.
func (h *held) left(x *heldLease) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(0, remaining(x.until, time.Now()))
}

// remaining is the time from now to t by the clock, monotonic or wall, that is ahead.
func remaining(t, now time.Time) time.Duration {
	return min(t.Sub(now), t.Round(0).Sub(now.Round(0)))
}

// expire stops a job whose lease could not be extended in time.
func (h *held) expire(x *heldLease) {
	if left := h.left(x) - x.margin(); left > 0 {
		// The lease was extended while the timer fired.
		h.mu.Lock()
		x.last.Reset(left)
		h.mu.Unlock()
		return
	}
	h.lose(x, fmt.Errorf("%w: it could not be extended in time", jobs.ErrLeaseLost))
}

func (h *held) lose(x *heldLease, cause error) {
	h.mu.Lock()
	_, mine := h.leases[x.lease.ID]
	delete(h.leases, x.lease.ID)
	x.last.Stop()
	h.mu.Unlock()
	if mine {
		h.metrics.leasesLost.Inc()
		h.log.WarnContext(trace.With(context.Background(), x.lease.Job.Trace), "lease lost, job is stopped", "job", x.lease.Job.ID, "lease", x.lease.ID, "err", cause)
		x.stop(cause)
	}
}

// extend keeps all leases alive until ctx ends. When the source cannot be
// reached the jobs go on, but no longer than their leases.
func (h *held) extend(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due, next := h.due() //nolint:contextcheck // a lost lease is logged with the trace of its job
		if len(due) > 0 {
			h.extendAll(ctx, due)
			continue
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-h.wake:
		}
	}
}

// due returns the leases to extend now, or how long to wait for the next. It
// stops the jobs whose leases have ended by the wall clock.
func (h *held) due() (due []*heldLease, next time.Duration) {
	h.mu.Lock()
	now := time.Now()
	var over []*heldLease
	next = time.Hour
	for _, x := range h.leases {
		// A machine that slept shows it on the wall clock only, so check regularly.
		next = min(next, x.margin())
		switch left := remaining(x.due, now); {
		case remaining(x.until, now) <= 0:
			over = append(over, x)
		case left <= 0:
			due = append(due, x)
		default:
			next = min(next, left)
		}
	}
	h.next = now.Add(next)
	if len(due) > 0 {
		busy := make(chan struct{})
		for _, x := range due {
			x.busy = busy
		}
	}
	h.mu.Unlock()
	for _, x := range over {
		h.lose(x, fmt.Errorf("%w: it ended while the machine was asleep or stopped", jobs.ErrLeaseLost))
	}
	return due, next
}

func (h *held) extendAll(ctx context.Context, due []*heldLease) {
	leases := make([]jobs.Lease, len(due))
	for i, x := range due {
		leases[i] = x.lease
	}
	asked := time.Now() // before the call: a slow answer must not add time
	patience := due[0].extendTimeout()
	for _, x := range due {
		patience = min(patience, x.extendTimeout())
	}
	call, cancel := context.WithTimeout(ctx, patience)
	lost, err := h.src.Extend(call, leases, h.ttl)
	cancel()
	close(due[0].busy) // one for all of them
	if err == nil {
		h.metrics.extensions.WithLabelValues("ok").Inc()
	} else if ctx.Err() == nil {
		h.metrics.extensions.WithLabelValues("failed").Inc()
		h.log.WarnContext(ctx, "cannot extend leases, trying again", "leases", len(due), "err", err)
	}
	for _, x := range due {
		if cause := lost[x.lease.ID]; cause != nil {
			h.lose(x, fmt.Errorf("%w: %w", jobs.ErrLeaseLost, cause)) //nolint:contextcheck // a lost lease is logged with the trace of its job
			continue
		}
		h.mu.Lock()
		x.busy = nil
		if err != nil {
			x.due = time.Now().Add(x.retry())
		} else {
			x.until, x.due = asked.Add(x.ttl), asked.Add(x.every)
			if _, mine := h.leases[x.lease.ID]; mine {
				x.last.Reset(remaining(x.until, time.Now()) - x.margin())
			}
		}
		h.mu.Unlock()
	}
}

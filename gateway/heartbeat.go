package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// progressEvery is the shortest time between two heartbeats that only carry progress or lines.
// Each costs the control plane a call of its store.
const progressEvery = 10 * time.Second

// maxMessage is how many bytes of a progress message are sent.
const maxMessage = wire.MaxName

// justLeased is how long ago a lease was asked for that cannot be lost. Kind zpe has a heartbeat also then.
const justLeased = time.Second

// Claim implements worker.Status. It sends a first heartbeat, unless the job was leased just now, so that no job
// starts under a lost lease.
func (a *Agent) Claim(ctx context.Context, job jobs.Job, _ time.Duration, again jobs.Claim) (jobs.Claim, error) {
	h := a.claimable(job.ID, again.Token)
	if h == nil {
		return jobs.Claim{Verdict: jobs.Busy, Job: job.ID}, nil
	}
	claim := jobs.Claim{Job: job.ID, Token: h.LeaseID, Attempt: h.attempt, Failures: h.failures}
	var err error
	if !a.justLeased(h) {
		err = a.heartbeat(ctx, h)
	}
	switch {
	case errors.Is(err, jobs.ErrLeaseLost):
		// Another worker has it, or will.
		claim.Verdict = jobs.Busy
		return claim, nil
	case err != nil:
		return claim, fmt.Errorf("claim job %s: %w", job.ID, err)
	}
	a.mu.Lock()
	first := !h.claimed
	h.claimed = true
	canceled := h.canceled
	a.mu.Unlock()
	if first && !canceled {
		a.listenLater(h)
	}
	if canceled {
		if _, err := a.Finish(ctx, claim, jobs.Outcome{State: jobs.Canceled}); err != nil {
			return claim, err
		}
		claim.Verdict, claim.State = jobs.Ended, jobs.Canceled
		return claim, nil
	}
	// A job of an agent may take hours, so its start is worth a line.
	a.Log.InfoContext(ctx, "job started", "job", job.ID, "attempt", claim.Attempt)
	claim.Verdict = jobs.Granted
	return claim, nil
}

// progressAfter is how long a job runs before its first progress is sent; of kind zpe it is sent at once.
const progressAfter = time.Second

func (a *Agent) justLeased(h *heldLease) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return h.Kind != "" && !h.claimed && time.Since(h.extendedAt) < justLeased
}

// claimable returns the lease with the given id, or without one the newest unclaimed
// lease on the job. Nil when there is none.
func (a *Agent) claimable(job jobs.ID, lease string) *heldLease {
	a.mu.Lock()
	defer a.mu.Unlock()
	if lease != "" {
		return a.leases[lease]
	}
	var newest *heldLease
	for _, h := range a.leases {
		if h.JobID == job && h.State == stepRunning && !h.claimed && (newest == nil || h.LeasedAt.After(newest.LeasedAt)) {
			newest = h
		}
	}
	return newest
}

// Extend implements worker.Source: a heartbeat for each lease, all at once.
func (a *Agent) Extend(ctx context.Context, leases []jobs.Lease, _ time.Duration) (lost map[string]error, err error) {
	var mu sync.Mutex
	lost = map[string]error{}
	var wg sync.WaitGroup
	for _, l := range leases {
		wg.Go(func() {
			h := a.find(l.ID)
			if h == nil {
				return // it has just ended
			}
			e := a.heartbeat(ctx, h)
			if a.step(h) != stepRunning {
				return // it has ended meanwhile: the heartbeat may have come after the result
			}
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(e, jobs.ErrLeaseLost) {
				lost[l.ID] = e
			} else {
				err = errors.Join(err, e)
			}
		})
	}
	wg.Wait()
	return lost, err
}

// Report implements worker.Status. It keeps the newest progress for the next heartbeat,
// and sends one itself when the last with progress is progressEvery ago. So it does with lines of
// the job's log; kind zpe has none.
func (a *Agent) Report(ctx context.Context, c jobs.Claim, _ time.Duration, p *jobs.Progress, lines jobs.Lines) error {
	a.mu.Lock()
	h := a.leases[c.Token]
	if h == nil {
		a.mu.Unlock()
		return fmt.Errorf("%w: this worker does not hold it any more", jobs.ErrLeaseLost)
	}
	if p != nil {
		h.progress, h.unsent = progressOf(*p), true
		if p.Message != "" {
			h.message = jobs.Clip(p.Message, maxMessage, "")
		}
	}
	if h.Kind != "" {
		h.lines.add(lines)
	}
	due := (h.unsent || !h.lines.empty()) && time.Since(h.progressAt) >= progressEvery
	lost, canceled := h.lost, h.canceled
	a.mu.Unlock()
	if due && !lost && !canceled {
		err := a.heartbeat(ctx, h)
		if err != nil {
			return fmt.Errorf("report progress: %w", err)
		}
		a.mu.Lock()
		canceled = h.canceled
		a.mu.Unlock()
	}
	switch {
	case lost:
		return jobs.ErrLeaseLost
	case canceled:
		return jobs.ErrCanceled
	}
	return nil
}

// progressOf returns p for the wire, where done is at most total.
func progressOf(p jobs.Progress) *wire.Progress {
	w := &wire.Progress{Done: max(0, p.Done), Total: max(0, p.Total)}
	if w.Total > 0 {
		w.Done = min(w.Done, w.Total)
	}
	return w
}

// heartbeat extends a lease, and sends progress that is new. The error wraps
// jobs.ErrLeaseLost when the control plane has decided that this worker has lost the
// lease; after any other error the lease is as it was.
func (a *Agent) heartbeat(ctx context.Context, h *heldLease) error {
	a.mu.Lock()
	request := wire.HeartbeatRequest{LeaseID: h.LeaseID, Kind: string(h.Kind)}
	if h.unsent {
		request.Progress, request.Message, h.unsent, h.progressAt = h.progress, h.message, false, time.Now()
	}
	if request.Log = h.lines.take(); request.Log != nil {
		h.progressAt = time.Now()
	}
	a.mu.Unlock()
	response, err := a.Gateway.Heartbeat(ctx, string(h.JobID), request)
	a.mu.Lock()
	defer a.mu.Unlock()
	e := (*Error)(nil)
	decided := errors.As(err, &e) && e.decided()
	if request.Log != nil {
		h.lines.settled(err == nil || decided) // lines that are refused are lost
	}
	if err == nil {
		h.extendedAt = time.Now()
		h.canceled = h.canceled || response.CancelRequested
		return nil
	}
	h.unsent = h.unsent || request.Progress != nil
	switch {
	case !decided:
	case e.endsLease():
		h.lost = true
		return fmt.Errorf("%w: %w", jobs.ErrLeaseLost, err)
	default:
		h.unsent = false // a message that is refused must not cost the lease
	}
	return err
}

// endsLease reports whether a heartbeat's error means that the lease is lost, or that the
// control plane accepts nothing from this worker.
func (e *Error) endsLease() bool {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict:
		return e.Code != ""
	}
	return e.Code == wire.JobNotFound
}

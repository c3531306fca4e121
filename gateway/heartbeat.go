package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// progressEvery is the shortest time between two heartbeats that only tell how
// far a job has come. Each costs the control plane a call of its store.
const progressEvery = 10 * time.Second

// maxMessage is how many bytes of a progress message are sent.
const maxMessage = MaxName

// Claim implements worker.Status: with a first heartbeat, so that no job is
// started under a lease that is lost already.
func (a *Agent) Claim(ctx context.Context, job jobs.Job, _ time.Duration, again jobs.Claim) (jobs.Claim, error) {
	h := a.claimable(job.ID, again.Token)
	if h == nil {
		return jobs.Claim{Verdict: jobs.Busy, Job: job.ID}, nil
	}
	claim := jobs.Claim{Job: job.ID, Token: h.LeaseID, Attempt: h.attempt}
	err := a.beat(ctx, h)
	switch {
	case errors.Is(err, jobs.ErrLeaseLost):
		// Somebody else has it, or will.
		claim.Verdict = jobs.Busy
		return claim, nil
	case err != nil:
		return claim, fmt.Errorf("claim job %s: %w", job.ID, err)
	}
	a.mu.Lock()
	first := !h.claimed
	h.claimed = true
	canceled := h.canceled
	if first && !canceled {
		a.fresh = append(a.fresh, h)
	}
	a.mu.Unlock()
	a.nudge()
	if canceled {
		if _, err := a.Finish(ctx, claim, jobs.Outcome{State: jobs.Canceled}); err != nil {
			return claim, err
		}
		claim.Verdict, claim.State = jobs.Ended, jobs.Canceled
		return claim, nil
	}
	// Here, where a job may take hours, and not for every job of every worker.
	a.Log.InfoContext(ctx, "job started", "job", job.ID, "attempt", claim.Attempt)
	claim.Verdict = jobs.Granted
	return claim, nil
}

// claimable returns the lease to claim a job under: the one named, or the newest
// that is not yet claimed.
func (a *Agent) claimable(job jobs.ID, lease string) *hand {
	a.mu.Lock()
	defer a.mu.Unlock()
	if lease != "" {
		return a.hands[lease]
	}
	var newest *hand
	for _, h := range a.hands {
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
			h := a.hand(l.ID)
			if h == nil {
				return // it has ended a moment ago
			}
			e := a.beat(ctx, h)
			if a.step(h) != stepRunning {
				return // meanwhile; the heartbeat may have come after the result
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

// Report implements worker.Status. It keeps the newest progress for the next
// heartbeat, and sends one itself if the last that told any is some time ago.
// lines are for a place that keeps a log of a job; the newest message is enough
// here.
func (a *Agent) Report(ctx context.Context, c jobs.Claim, _ time.Duration, p *jobs.Progress, _ jobs.Lines) error {
	a.mu.Lock()
	h := a.hands[c.Token]
	if h == nil {
		a.mu.Unlock()
		return fmt.Errorf("%w: this worker has given it up", jobs.ErrLeaseLost)
	}
	if p != nil {
		h.progress, h.unsent = progressOf(*p), true
		if p.Message != "" {
			h.message = Clip(p.Message, maxMessage)
		}
	}
	due := h.unsent && time.Since(h.beatsAt) >= progressEvery
	lost, canceled := h.lost, h.canceled
	a.mu.Unlock()
	if due && !lost && !canceled {
		err := a.beat(ctx, h)
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

// progressOf returns p for the wire, on which a part is no more than the whole.
func progressOf(p jobs.Progress) *Progress {
	w := &Progress{Done: max(0, p.Done), Total: max(0, p.Total)}
	if w.Total > 0 {
		w.Done = min(w.Done, w.Total)
	}
	return w
}

// beat sends a heartbeat, with progress if there is news. The error wraps
// jobs.ErrLeaseLost when the control plane has decided that the lease is not
// this worker's any more; otherwise the lease stands as it did.
func (a *Agent) beat(ctx context.Context, h *hand) error {
	a.mu.Lock()
	ask := HeartbeatAsk{LeaseID: h.LeaseID}
	if h.unsent {
		ask.Progress, ask.Message, h.unsent, h.beatsAt = h.progress, h.message, false, time.Now()
	}
	a.mu.Unlock()
	answer, err := a.Gateway.Heartbeat(ctx, string(h.JobID), ask)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		h.beatAt = time.Now()
		h.canceled = h.canceled || answer.CancelRequested
		return nil
	}
	h.unsent = h.unsent || ask.Progress != nil
	e := (*Error)(nil)
	switch {
	case !errors.As(err, &e) || !e.decided():
	case e.endsLease():
		h.lost = true
		return fmt.Errorf("%w: %w", jobs.ErrLeaseLost, err)
	default:
		h.unsent = false // the lease must not end for a message that is not taken
	}
	return err
}

// endsLease reports whether a heartbeat's error says that the lease is gone, or
// that nothing this worker says will be heard.
func (e *Error) endsLease() bool {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict:
		return e.Code != ""
	}
	return e.Code == JobNotFound
}

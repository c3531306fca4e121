package gateway

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// An agent learns of a cancel by long polling: a heartbeat that the control plane answers
// when there is one.
const (
	// longPollSeconds is how long it may hold the response: common proxies close connections
	// that are silent for 30 s.
	longPollSeconds = 25
	// minPollInterval is the shortest time between two polls, and how long a job runs
	// before the first: a short job costs none.
	minPollInterval = time.Second / 2
	// noLongPollPause is the pause between polls of a control plane that holds none. The
	// responses to other heartbeats bring the cancel too, later.
	noLongPollPause = 10 * time.Minute
)

// listenLater has [Agent.Run] call watchCancel when the job has run for a while.
func (a *Agent) listenLater(h *heldLease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	later := time.AfterFunc(minPollInterval, func() {
		select {
		case a.watch <- h:
		case <-a.ended:
		}
	})
	h.stopListening = func() { later.Stop() }
}

// watchCancel waits for a request to cancel the job under a lease, and records it for the
// next Report. It returns when the job ends, the lease is lost, or ctx ends. Errors of the
// connection do not affect the job.
func (a *Agent) watchCancel(ctx context.Context, h *heldLease) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.mu.Lock()
	h.stopListening = cancel
	ended := h.State != stepRunning || a.leases[h.LeaseID] != h
	a.mu.Unlock()
	if ended {
		return
	}
	wait, pause := deliveries.Delays(), time.Duration(0)
	for jobs.Sleep(ctx, pause) == nil {
		asked := time.Now()
		held, more, err := a.pollCancel(ctx, h)
		e := (*Error)(nil)
		switch {
		case !more:
			return
		case err != nil:
			pause = wait.Next()
			if errors.As(err, &e) {
				pause = max(pause, e.RetryAfter)
			}
		case !held:
			pause = noLongPollPause + rand.N(noLongPollPause/2) // so that not all come at once
		default:
			wait.Reset()
			pause = max(0, minPollInterval-time.Since(asked))
		}
	}
}

// pollCancel polls once. held is whether the control plane has held its response, more
// whether to poll again.
func (a *Agent) pollCancel(ctx context.Context, h *heldLease) (held, more bool, err error) {
	response, err := a.Gateway.Heartbeat(ctx, string(h.JobID), wire.HeartbeatRequest{LeaseID: h.LeaseID, Kind: string(h.Kind), WaitSeconds: longPollSeconds})
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.State != stepRunning || a.leases[h.LeaseID] != h {
		return false, false, nil // it has ended meanwhile, and the response may be about that
	}
	if e := (*Error)(nil); errors.As(err, &e) && e.decided() && e.endsLease() {
		h.lost = true
	}
	h.canceled = h.canceled || err == nil && response.CancelRequested
	return response.Waited, !h.lost && !h.canceled, err
}

// drop removes a lease from those that are held. a.mu is held.
func (a *Agent) drop(lease string) {
	if h := a.leases[lease]; h != nil && h.stopListening != nil {
		h.stopListening()
	}
	delete(a.leases, lease)
}

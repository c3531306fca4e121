package gateway

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// How an agent hears that a job is to be canceled: by a heartbeat that the control
// plane holds until then.
const (
	// listenSeconds is for how long: common proxies cut what says nothing for 30 s.
	listenSeconds = 25
	// listenAfter is the shortest time between two of them, and how long a job runs
	// before the first: a short one costs none.
	listenAfter = time.Second / 2
	// deafPause is how long to leave a control plane alone that holds none. Its
	// other heartbeats say whether the job is to be canceled, later.
	deafPause = 10 * time.Minute
)

// listen waits until somebody cancels the job under a lease, and takes note of that
// for the next Report. It returns when the job ends, the lease is lost, or ctx
// ends. Trouble on the way to the control plane is none of the job's.
func (a *Agent) listen(ctx context.Context, h *hand) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.mu.Lock()
	h.hush = cancel
	over := h.State != stepRunning || a.hands[h.LeaseID] != h
	a.mu.Unlock()
	if over {
		return
	}
	wait, pause := deliveryBackoff(), listenAfter
	for jobs.Sleep(ctx, pause) == nil {
		asked := time.Now()
		held, more, err := a.hear(ctx, h)
		e := (*Error)(nil)
		switch {
		case !more:
			return
		case err != nil:
			pause = wait.NextBackOff()
			if errors.As(err, &e) {
				pause = max(pause, e.RetryAfter)
			}
		case !held:
			pause = deafPause + rand.N(deafPause/2) // so that not all come at once
		default:
			wait.Reset()
			pause = max(0, listenAfter-time.Since(asked))
		}
	}
}

// hear asks once. held says whether the control plane has waited for an answer,
// more whether there is still something to hear.
func (a *Agent) hear(ctx context.Context, h *hand) (held, more bool, err error) {
	answer, err := a.Gateway.Heartbeat(ctx, string(h.JobID), HeartbeatAsk{LeaseID: h.LeaseID, WaitSeconds: listenSeconds})
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.State != stepRunning || a.hands[h.LeaseID] != h {
		return false, false, nil // it has ended meanwhile, and what was heard may be of that
	}
	if e := (*Error)(nil); errors.As(err, &e) && e.decided() && e.endsLease() {
		h.lost = true
	}
	h.canceled = h.canceled || err == nil && answer.CancelRequested
	return answer.Waited, !h.lost && !h.canceled, err
}

// drop takes a lease out of the agent's hands. a.mu is held.
func (a *Agent) drop(lease string) {
	if h := a.hands[lease]; h != nil && h.hush != nil {
		h.hush()
	}
	delete(a.hands, lease)
}

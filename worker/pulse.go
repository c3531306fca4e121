package worker

import (
	"context"
	"errors"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Registry is where a worker reports that it lives, for people to see.
type Registry interface {
	Pulse(ctx context.Context, inHand int, draining bool) error
	Leave(ctx context.Context) error
}

const (
	// pulseEvery is how often. An entry of the registry outlasts two lost reports.
	pulseEvery = 5 * time.Second
	// countEvery is how often the jobs in hand are counted: when there are more or fewer than
	// the last report has said, the next one is sent at once. Jobs themselves report nothing
	// here, so that short ones cost no more than a report a second.
	countEvery = time.Second
)

// pulses tells the registry that the worker lives until work ends, and then that it
// ends. Errors are ignored: nothing depends on it.
func (w *Worker) pulses(leasing, work context.Context) {
	for {
		call, cancel := context.WithTimeout(work, callTimeout)
		draining := leasing.Err() != nil || errors.Is(w.readiness.state(), ErrDraining)
		inHand := w.held.count()
		if err := w.Registry.Pulse(call, inHand, draining); err != nil && work.Err() == nil {
			w.Log.DebugContext(work, "cannot write the worker's heartbeat", "err", err)
		}
		cancel()
		if w.untilPulse(work, inHand) != nil {
			break
		}
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(work), finalCallTimeout)
	defer cancel()
	if err := w.Registry.Leave(call); err != nil {
		w.Log.DebugContext(work, "cannot remove the worker from the registry", "err", err)
	}
}

// untilPulse waits until the next report is due: for pulseEvery, or until a count of the jobs in
// hand is no longer what the last report has said. The error is that work has ended.
func (w *Worker) untilPulse(work context.Context, reported int) error {
	for range pulseEvery / countEvery {
		if err := jobs.Sleep(work, countEvery); err != nil {
			return err
		}
		if w.held.count() != reported {
			break
		}
	}
	return nil
}

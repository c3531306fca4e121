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

// pulseEvery is how often. An entry of the registry outlasts two lost reports.
const pulseEvery = 5 * time.Second

// pulses tells the registry that the worker lives until work ends, and then that it
// ends. Errors are ignored: nothing depends on it.
func (w *Worker) pulses(leasing, work context.Context) {
	for {
		call, cancel := context.WithTimeout(work, callTimeout)
		draining := leasing.Err() != nil || errors.Is(w.readiness.state(), ErrDraining)
		if err := w.Registry.Pulse(call, w.held.count(), draining); err != nil && work.Err() == nil {
			w.Log.DebugContext(work, "cannot write the worker's heartbeat", "err", err)
		}
		cancel()
		if jobs.Sleep(work, pulseEvery) != nil {
			break
		}
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(work), finalCallTimeout)
	defer cancel()
	if err := w.Registry.Leave(call); err != nil {
		w.Log.DebugContext(work, "cannot remove the worker from the registry", "err", err)
	}
}

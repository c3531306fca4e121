package worker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

// Registry is where a worker reports that it lives, for people to see.
type Registry interface {
	// Pulse tells it how many jobs the worker has in hand, whether it drains, and why it
	// takes no jobs for another reason: a short line, empty if there is none.
	Pulse(ctx context.Context, inHand int, draining bool, unready string) error
	Leave(ctx context.Context) error
}

const (
	// pulseEvery is how often. An entry of the registry outlasts two lost reports.
	pulseEvery = 5 * time.Second
	// countEvery is how often the worker looks at itself: when there is more or less to say than
	// in the last report, the next one is sent at once. Jobs themselves report nothing
	// here, so that short ones cost no more than a report a second.
	countEvery = time.Second
	// maxUnready is the longest reason that is reported, in bytes.
	maxUnready = 300
)

// condition is what a worker says of itself that changes.
type condition struct {
	inHand   int
	draining bool
	unready  string
}

// condition looks at the worker.
func (w *Worker) condition(leasing context.Context) condition {
	why := w.readiness.state()
	c := condition{inHand: w.held.count(), draining: leasing.Err() != nil || errors.Is(why, ErrDraining)}
	if why != nil && !c.draining {
		text := strings.ReplaceAll(why.Error(), jobs.ErrUnavailable.Error()+": ", "")
		c.unready = jobs.Clip(jobs.VisibleLine(redact.Reason(text)), maxUnready, "…")
	}
	return c
}

// pulses tells the registry that the worker lives until work ends, and then that it
// ends. Errors are ignored: nothing depends on it.
func (w *Worker) pulses(leasing, work context.Context) {
	w.awaitReady(leasing)
	for {
		call, cancel := context.WithTimeout(work, callTimeout)
		said := w.condition(leasing)
		if err := w.Registry.Pulse(call, said.inHand, said.draining, said.unready); err != nil && work.Err() == nil {
			w.Log.DebugContext(work, "cannot write the worker's heartbeat", "err", err)
		}
		cancel()
		w.follow(work)
		if w.untilPulse(leasing, work, said) != nil {
			break
		}
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(work), finalCallTimeout)
	defer cancel()
	if err := w.Registry.Leave(call); err != nil {
		w.Log.DebugContext(work, "cannot remove the worker from the registry", "err", err)
	}
}

// awaitReady gives the first checks a moment, so that a worker that starts is not shown as
// unready.
func (w *Worker) awaitReady(leasing context.Context) {
	first, cancel := context.WithTimeout(leasing, countEvery)
	defer cancel()
	_ = w.readiness.wait(first)
}

// untilPulse waits until the next report is due: for pulseEvery, or until there is something else
// to say than the last report has said. The error is that work has ended.
func (w *Worker) untilPulse(leasing, work context.Context, said condition) error {
	for range pulseEvery / countEvery {
		if err := jobs.Sleep(work, countEvery); err != nil {
			return err
		}
		if w.condition(leasing) != said {
			break
		}
	}
	return nil
}

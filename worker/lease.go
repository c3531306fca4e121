package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/batchfleet/batchfleet/jobs"
)

// lease waits until the worker is healthy and then for a job. Trouble that may
// pass is waited out; a refusal is tried again for StartTimeout, because a
// queue is often created a moment after its workers start.
func (w *Worker) lease(ctx context.Context) (jobs.Lease, error) {
	wait := leaseBackoff()
	var refused time.Time
	for {
		if err := w.gate.wait(ctx); err != nil {
			return jobs.Lease{}, err
		}
		lease, err := w.ask(ctx)
		if err == nil {
			return lease, nil
		}
		if ctx.Err() != nil {
			return jobs.Lease{}, context.Cause(ctx)
		}
		if errors.Is(err, errGateShut) {
			continue
		}
		delay := wait.NextBackOff()
		switch {
		case !errors.Is(err, ErrRefused):
			refused = time.Time{}
			w.Log.WarnContext(ctx, "cannot lease a job", "retry_in", delay, "err", err)
		case refused.IsZero():
			refused = time.Now()
			fallthrough
		default:
			if waited := time.Since(refused); waited >= w.StartTimeout {
				return jobs.Lease{}, fmt.Errorf("lease a job, tried for %s: %w", waited.Round(time.Second), err)
			}
			delay = max(delay, 5*time.Second)
			w.Log.ErrorContext(ctx, "the source refuses this worker", "retry_in", delay, "gives_up_after", w.StartTimeout, "err", err)
		}
		w.Metrics.leaseErrors.Inc()
		if err := jobs.Sleep(ctx, delay); err != nil {
			return jobs.Lease{}, err
		}
	}
}

// ask asks the source for a lease, and stops asking when the gate shuts.
func (w *Worker) ask(ctx context.Context) (jobs.Lease, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	answered := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-w.gate.whenShut():
			cancel(errGateShut)
		case <-answered:
		}
	})
	defer cancel(nil)
	defer watch.Wait()
	defer close(answered)
	w.idle.asks()
	defer w.idle.answered()
	return w.Source.Lease(ctx)
}

// leaseBackoff grows from half a second to 30 seconds, with jitter, so that a
// fleet does not return to a recovering service all at once.
func leaseBackoff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 500 * time.Millisecond
	b.MaxInterval = 20 * time.Second // with the jitter of one half: 30 s
	b.Multiplier = 2
	b.Reset()
	return b
}

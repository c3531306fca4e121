package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/retry"
)

// lease waits until the worker is healthy and then for a job for the pool. Trouble that may
// pass is waited out; a refusal is tried again for StartTimeout, because a
// queue is often created a moment after its workers start.
func (w *Worker) lease(ctx context.Context, p *pool) (jobs.Lease, error) {
	wait := callRetry.Delays()
	var refused time.Time
	failed := 0 // calls in a row
	for {
		if err := w.readiness.wait(ctx); err != nil {
			return jobs.Lease{}, err
		}
		lease, err := w.requestLease(ctx, p)
		if err == nil {
			w.outage.ends(ctx)
			return lease, nil
		}
		w.idle.busy()
		if ctx.Err() != nil {
			return jobs.Lease{}, context.Cause(ctx)
		}
		if errors.Is(err, errUnready) || errors.Is(err, errReplaced) {
			continue
		}
		delay, news := wait.Next(), w.outage.isNews(err)
		switch {
		case !errors.Is(err, ErrRefused):
			refused = time.Time{}
			if news {
				w.Log.WarnContext(ctx, "cannot lease a job", "retry_in", delay, "err", err)
			}
		case refused.IsZero():
			refused = time.Now()
			fallthrough
		default:
			if waited := time.Since(refused); waited >= w.StartTimeout {
				return jobs.Lease{}, fmt.Errorf("lease a job, tried for %s: %w", waited.Round(time.Second), err)
			}
			delay = min(max(delay, 5*time.Second), w.StartTimeout-time.Since(refused))
			if news {
				w.Log.ErrorContext(ctx, "the source refuses this worker", "retry_in", delay, "gives_up_after", w.StartTimeout, "err", err)
			}
		}
		w.Metrics.leaseErrors.Inc()
		failed++
		w.outage.fails(ctx, err, failed)
		if err := w.outage.pause(ctx, delay); err != nil {
			return jobs.Lease{}, err
		}
	}
}

// requestLease requests a lease of the source, of a kind that the pool runs if the source
// can choose. It cancels the request when the worker becomes unready, or the kinds may be others.
func (w *Worker) requestLease(ctx context.Context, p *pool) (jobs.Lease, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	now, replaced := w.current(), (<-chan struct{})(nil)
	if w.pools.source != nil {
		replaced = now.replaced
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-w.readiness.unready():
			cancel(errUnready)
		case <-replaced:
			cancel(errReplaced)
		case <-ctx.Done():
		}
	})
	defer watch.Wait()
	defer cancel(nil)
	w.idle.begin()
	defer w.idle.end()
	if w.pools.source != nil {
		if kinds := w.pools.kinds(p, now); len(kinds) > 0 {
			return w.pools.source.LeaseKinds(ctx, kinds)
		}
		<-ctx.Done() // there may be some again
		return jobs.Lease{}, context.Cause(ctx)
	}
	return w.Source.Lease(ctx)
}

// callRetry is how calls of the source and of the status store are made again.
var callRetry = retry.Policy{First: 500 * time.Millisecond, Max: 30 * time.Second}

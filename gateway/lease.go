package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

var (
	_ worker.Source = (*Agent)(nil)
	_ worker.Status = (*Agent)(nil)
)

// answerGrace is how long an ask may go on after it is no longer wanted. The
// control plane may have leased a job already, and its answer be on the way:
// without it the job would wait for the end of a lease that nobody has.
const answerGrace = time.Second / 2

// Lease implements worker.Source. It waits until [Agent.Run] has told the
// control plane what an earlier process has left behind.
func (a *Agent) Lease(ctx context.Context) (jobs.Lease, error) {
	select {
	case <-a.ready:
	case <-ctx.Done():
		return jobs.Lease{}, context.Cause(ctx)
	}
	for {
		if err := a.pace.begin(ctx); err != nil {
			return jobs.Lease{}, err
		}
		// A lease that cannot be kept would cost the job one of its runs.
		if err := a.Check(ctx); err != nil {
			a.pace.end()
			return jobs.Lease{}, err
		}
		answer, err := a.ask(ctx)
		a.pace.end()
		switch {
		case err != nil:
			return jobs.Lease{}, err
		case answer != nil:
			return a.accept(ctx, answer)
		}
	}
}

// ask asks for a job once. Without one it returns nil.
func (a *Agent) ask(ctx context.Context) (*LeaseAnswer, error) {
	asked := time.Now()
	call, cancel := graceful(ctx, answerGrace)
	defer cancel()
	answer, err := a.Gateway.Lease(call, LeaseAsk{
		Features: []string{FeatureRenew, FeatureCancel}, WaitSeconds: MaxWait, RequestID: a.pace.request(),
	})
	switch {
	case err != nil:
		return nil, a.refusal(ctx, err)
	case answer == nil:
		a.pace.empty(asked)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, nil //nolint:nilnil // no job
	}
	a.pace.answered()
	a.pace.job()
	return answer, nil
}

// refusal translates an error of Lease for the loop.
func (a *Agent) refusal(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		return err
	}
	a.pace.bar(e.RetryAfter)
	switch {
	case e.Status == http.StatusNotFound:
		return fmt.Errorf("%w: %w; is SOURCE the gateway's own address, without a path?", worker.ErrRefused, err)
	case e.decided() && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden):
		return fmt.Errorf("%w: %w", worker.ErrRefused, err)
	}
	return err
}

// graceful returns a context that ends a moment after ctx does.
func graceful(ctx context.Context, moment time.Duration) (context.Context, context.CancelFunc) {
	call, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var last atomic.Pointer[time.Timer]
	stop := context.AfterFunc(ctx, func() {
		last.Store(time.AfterFunc(moment, func() { cancel(context.Cause(ctx)) }))
	})
	return call, func() {
		stop()
		if t := last.Load(); t != nil {
			t.Stop()
		}
		cancel(nil)
	}
}

// accept takes charge of a lease: it is on disk before anything is done under it.
func (a *Agent) accept(ctx context.Context, answer *LeaseAnswer) (jobs.Lease, error) {
	now := time.Now()
	e := entry{
		Version: 1, JobID: jobs.ID(answer.JobID), LeaseID: answer.LeaseID, TTLSeconds: answer.LeaseTTLSeconds,
		State: stepRunning, LeasedAt: now.UTC(),
	}
	if a.hand(e.LeaseID) != nil {
		return jobs.Lease{}, fmt.Errorf("lease a job: %w", strange("it hands out a lease that this worker has already"))
	}
	if err := a.outbox.put(e); err != nil {
		// Better another worker than one that would forget what it has.
		failed := failedAsk(e.LeaseID, FailWorkerUnavailable, "the worker cannot write its state directory", "", true)
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
		defer cancel()
		_, told := a.Gateway.Failed(call, answer.JobID, *failed)
		return jobs.Lease{}, errors.Join(fmt.Errorf("keep the lease on job %s: %w: %w", e.JobID, jobs.ErrUnavailable, err), told)
	}
	h := newHand(e)
	h.attempt = answer.RetryCount + 1
	a.mu.Lock()
	a.hands[e.LeaseID] = h
	a.mu.Unlock()
	a.dropLeft(ctx, e.JobID)
	return jobs.Lease{
		ID:  e.LeaseID,
		Job: jobs.Job{ID: e.JobID, Kind: a.Kind, Payload: string(answer.Payload)},
		// From now and not from when it was asked for, which may have been long ago:
		// the heartbeat before the job starts makes it true.
		Until: now.Add(e.ttl()), TTL: e.ttl(),
		Delivery: answer.RetryCount + 1,
	}, nil
}

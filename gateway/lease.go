package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

var (
	_ worker.Source = (*Agent)(nil)
	_ worker.Status = (*Agent)(nil)
)

// cancelGrace is how long a request for a job may go on after it was canceled. The
// control plane may have leased a job already, with its response on the way. If that
// were dropped, the job would wait until its lease ends.
const cancelGrace = time.Second / 2

// Lease implements worker.Source. It waits until [Agent.Run] has tried to deliver the
// outcomes of an earlier process.
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
		// A lease that cannot be written to disk would cost the job one of its attempts.
		if err := a.Check(ctx); err != nil {
			a.pace.end()
			return jobs.Lease{}, err
		}
		response, err := a.requestJob(ctx)
		a.pace.end()
		switch {
		case err != nil:
			return jobs.Lease{}, err
		case response != nil:
			return a.accept(ctx, response)
		}
	}
}

// requestJob requests a job once. It returns nil when there is none.
func (a *Agent) requestJob(ctx context.Context) (*wire.LeaseResponse, error) {
	asked := time.Now()
	call, cancel := withGrace(ctx, cancelGrace)
	defer cancel()
	response, err := a.Gateway.Lease(call, wire.LeaseRequest{
		Features: []string{wire.FeatureRenew, wire.FeatureCancel}, WaitSeconds: wire.MaxWait, RequestID: a.pace.request(),
	})
	switch {
	case err != nil:
		return nil, a.leaseError(ctx, err)
	case response == nil:
		a.pace.noJob(asked)
		return nil, nil //nolint:nilnil // no job
	}
	a.pace.gotJob()
	a.pace.jobChanged()
	return response, nil
}

// leaseError translates an error of the control plane's Lease for the loop.
func (a *Agent) leaseError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		return err
	}
	a.pace.delay(e.RetryAfter)
	switch {
	case e.Status == http.StatusNotFound:
		return fmt.Errorf("%w: %w; is SOURCE the gateway's own address, without a path?", worker.ErrRefused, err)
	case e.decided() && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden):
		return fmt.Errorf("%w: %w", worker.ErrRefused, err)
	}
	return err
}

// withGrace returns a context that ends some time after ctx does.
func withGrace(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	call, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = jobs.Sleep(call, grace) // less when the call has ended
		cancel(context.Cause(ctx))
	})
	return call, func() {
		stop()
		cancel(nil)
	}
}

// accept writes a lease to disk and returns it for the loop.
func (a *Agent) accept(ctx context.Context, response *wire.LeaseResponse) (jobs.Lease, error) {
	now := time.Now()
	e := entry{
		Version: 1, JobID: jobs.ID(response.JobID), LeaseID: response.LeaseID, TTLSeconds: response.LeaseTTLSeconds,
		State: stepRunning, LeasedAt: now.UTC(),
	}
	if a.find(e.LeaseID) != nil {
		return jobs.Lease{}, fmt.Errorf("lease a job: %w", errBadResponse("a lease that this worker holds already"))
	}
	if err := a.putEntry(e); err != nil {
		// After a restart this worker would not know that it had the lease.
		failErr := a.failNow(ctx, e, wire.FailWorkerUnavailable, "the worker cannot write its state directory")
		return jobs.Lease{}, errors.Join(fmt.Errorf("keep the lease on job %s: %w: %w", e.JobID, jobs.ErrUnavailable, err), failErr)
	}
	h := &heldLease{entry: e, attempt: response.RetryCount + 1}
	a.mu.Lock()
	a.leases[e.LeaseID] = h
	a.mu.Unlock()
	a.dropRetained(ctx, e.JobID)
	return jobs.Lease{
		ID:  e.LeaseID,
		Job: jobs.Job{ID: e.JobID, Kind: a.Kind, Payload: string(response.Payload)},
		// From now and not from when it was asked for, which may have been long ago:
		// the heartbeat before the job starts makes it true.
		Until: now.Add(e.ttl()), TTL: e.ttl(),
		Delivery: response.RetryCount + 1,
	}, nil
}

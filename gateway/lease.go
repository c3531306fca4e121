package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

var (
	_ worker.KindSource = (*Agent)(nil)
	_ worker.Status     = (*Agent)(nil)
)

// cancelGrace is how long a request for a job may go on after it was canceled. The
// control plane may have leased a job already, with its response on the way. If that
// were dropped, the job would wait until its lease ends.
const cancelGrace = time.Second / 2

// Lease implements worker.Source. It waits until [Agent.Run] has tried to deliver the
// outcomes of an earlier process.
func (a *Agent) Lease(ctx context.Context) (jobs.Lease, error) {
	kinds := a.others()
	if a.Kind != "" {
		kinds = append([]jobs.Kind{a.Kind}, kinds...)
	}
	return a.LeaseKinds(ctx, kinds)
}

// LeaseKinds implements worker.KindSource. Requests for other kinds do not wait for each other.
func (a *Agent) LeaseKinds(ctx context.Context, kinds []jobs.Kind) (jobs.Lease, error) {
	select {
	case <-a.ready:
	case <-ctx.Done():
		return jobs.Lease{}, context.Cause(ctx)
	}
	for {
		some, none := a.leasable(kinds)
		switch {
		case none:
			return jobs.Lease{}, fmt.Errorf("%w: the gateway has none of this worker's kinds: %s; add them to its KINDS_FILE; and is SOURCE its own address, without a path?", worker.ErrRefused, wordsOf(a.others()))
		case len(some) == 0:
			if err := jobs.Sleep(ctx, lookForKindsEvery); err != nil {
				return jobs.Lease{}, err
			}
			continue
		}
		request := a.leaseRequest(some)
		pace := a.paceOf(request)
		me, job, err := pace.begin(ctx)
		switch {
		case err != nil:
			return jobs.Lease{}, err
		case job != nil:
			return a.accept(ctx, job)
		}
		pace.gather()
		// A lease that cannot be written to disk would cost the job one of its attempts.
		if err := a.Check(ctx); err != nil {
			pace.end(me)
			return jobs.Lease{}, err
		}
		job, err = a.requestJobs(ctx, pace, me, request)
		pace.end(me)
		switch {
		case errors.Is(err, errKindAbsent):
		case err != nil:
			return jobs.Lease{}, err
		case job != nil:
			return a.accept(ctx, job)
		}
	}
}

// requestJobs requests jobs once, one for each slot that waits, and returns that of this slot. It
// returns nil when there is none.
func (a *Agent) requestJobs(ctx context.Context, pace *pace, me *slot, request wire.LeaseRequest) (*leased, error) {
	asked := time.Now()
	call, cancel := withGrace(ctx, cancelGrace)
	defer cancel()
	all, err := a.leaseCall(call, pace, request)
	for i := range all {
		if !asksFor(request, all[i].Kind) {
			err = fmt.Errorf("lease a job: %w", errBadResponse(fmt.Sprintf("a job of kind %.80q, which was not asked for", all[i].Kind)))
		}
	}
	switch {
	case err != nil:
		return nil, a.leaseError(ctx, pace, request, err)
	case len(all) == 0:
		pace.noJob(asked)
		return nil, nil //nolint:nilnil // no job
	}
	pace.gotJobs(len(all))
	a.jobChanged()
	mine, rest := pace.handOut(me, a.keepLeases(all, asked))
	a.handBackAll(ctx, rest)
	return mine, nil
}

// leaseCall makes one call, for as many jobs as slots wait.
func (a *Agent) leaseCall(ctx context.Context, pace *pace, request wire.LeaseRequest) ([]wire.LeaseResponse, error) {
	var most int
	var several bool
	request.RequestID, most, several = pace.request()
	if plane, ok := a.Gateway.(BatchPlane); ok && several {
		request.Max = &most
		return plane.LeaseJobs(ctx, request)
	}
	one, err := a.Gateway.Lease(ctx, request)
	if one == nil {
		return nil, err
	}
	return []wire.LeaseResponse{*one}, err
}

// handBackAll hands jobs back for which no slot waits any more. It is tried once: a lease that is
// not handed back runs out.
func (a *Agent) handBackAll(ctx context.Context, rest []leased) {
	var calls sync.WaitGroup
	for _, job := range rest {
		calls.Go(func() {
			if err := a.failNow(ctx, job.entry, wire.FailWorkerShutdown, "the worker has no slot for it any more"); err != nil {
				a.Log.WarnContext(ctx, "cannot hand back a job, its lease must run out", "job", job.JobID, "err", err)
			}
			if job.err == nil {
				a.outbox.Remove(job.entry.file())
			}
		})
	}
	calls.Wait()
}

// errKindAbsent is for a request to the path of a kind that the control plane does not have.
var errKindAbsent = errors.New("the gateway does not have the kind")

// leaseError translates an error of the control plane's Lease for the loop.
func (a *Agent) leaseError(ctx context.Context, pace *pace, request wire.LeaseRequest, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		return err
	}
	pace.delay(e.RetryAfter)
	switch {
	case e.Status == http.StatusNotFound && e.Code == wire.NotFound && request.Kind != "":
		a.learn(ctx, jobs.Kind(request.Kind), absent)
		return errKindAbsent
	case e.Status == http.StatusNotFound:
		return fmt.Errorf("%w: %w; is SOURCE the gateway's own address, without a path?", worker.ErrRefused, err)
	case e.decided() && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden):
		return fmt.Errorf("%w: %w", worker.ErrRefused, err)
	}
	return err
}

// leaseRequest returns the request for jobs of these kinds.
func (a *Agent) leaseRequest(kinds []jobs.Kind) wire.LeaseRequest {
	request := wire.LeaseRequest{Features: []string{wire.FeatureRenew, wire.FeatureCancel}, WaitSeconds: wire.MaxWait}
	var others []string
	zpe := false
	for _, kind := range kinds {
		switch {
		case a.Kind != "" && kind == a.Kind:
			zpe = true
		case slices.Contains(a.others(), kind):
			others = append(others, string(kind))
		}
	}
	if len(others) > 0 {
		request.Features = append(request.Features, wire.FeatureInputs)
	}
	// A gateway that knows no kinds but zpe has no paths of others, and so gives a worker
	// of those no job of zpe.
	switch {
	case zpe && len(others) > 0:
		request.Kinds = append([]string{kindZPE}, others...)
	case len(others) > 0:
		request.Kind = others[0]
		request.Kinds = others
	}
	return request
}

const kindZPE = "zpe"

// wordsOf returns names of kinds for people.
func wordsOf(kinds []jobs.Kind) string {
	var names []string
	for _, kind := range kinds {
		names = append(names, string(kind))
	}
	return strings.Join(names, ", ")
}

// asksFor reports whether a request asks for jobs of a kind.
func asksFor(request wire.LeaseRequest, kind string) bool {
	if kind == "" || kind == kindZPE {
		return request.Kind == ""
	}
	return slices.Contains(request.Kinds, kind)
}

// paceOf returns the pace of such requests.
func (a *Agent) paceOf(request wire.LeaseRequest) *pace {
	key := strings.Join(request.Kinds, " ")
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.paces[key]
	if p == nil {
		p = newPace()
		a.paces[key] = p
	}
	return p
}

// jobChanged records that a job was leased or has ended.
func (a *Agent) jobChanged() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.paces {
		p.jobChanged()
	}
}

// localKind returns what this worker calls a kind of the gateway.
func (a *Agent) localKind(kind jobs.Kind) jobs.Kind {
	if kind == "" {
		return a.Kind
	}
	return kind
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

// entryOf returns the entry of a new lease.
func entryOf(response *wire.LeaseResponse) entry {
	e := entry{
		Version: 1, JobID: jobs.ID(response.JobID), LeaseID: response.LeaseID, TTLSeconds: response.LeaseTTLSeconds,
		State: stepRunning, LeasedAt: time.Now().UTC(),
	}
	if response.Kind != kindZPE {
		e.Kind = jobs.Kind(response.Kind)
	}
	return e
}

var errHeldAlready = errBadResponse("a lease that this worker holds already")

// keepLeases writes the leases of a response to disk, at once: to write each by itself would cost more than
// a short job.
func (a *Agent) keepLeases(all []wire.LeaseResponse, asked time.Time) []leased {
	came := make([]leased, len(all))
	var running []entry
	for i := range all {
		came[i] = leased{LeaseResponse: all[i], asked: asked, entry: entryOf(&all[i])}
		if a.find(all[i].LeaseID) != nil {
			came[i].err = errHeldAlready
		} else {
			running = append(running, came[i].entry)
		}
	}
	if err := a.putRunning(running); err != nil {
		for i := range came {
			came[i].err = cmp.Or(came[i].err, err)
		}
	}
	return came
}

// accept returns a lease for the loop.
func (a *Agent) accept(ctx context.Context, response *leased) (jobs.Lease, error) {
	e := response.entry
	switch err := response.err; {
	case errors.Is(err, errHeldAlready):
		return jobs.Lease{}, fmt.Errorf("lease a job: %w", err)
	case err != nil:
		// After a restart this worker would not know that it had the lease.
		failErr := a.failNow(ctx, e, wire.FailWorkerUnavailable, "the worker cannot write its state directory")
		return jobs.Lease{}, errors.Join(fmt.Errorf("keep the lease on job %s: %w: %w", e.JobID, jobs.ErrUnavailable, err), failErr)
	}
	job := jobs.Job{ID: e.JobID, Kind: a.localKind(e.Kind), Payload: string(response.Payload)}
	if e.Kind != "" {
		var err error
		if job.Payload, job.Input, job.Inputs, err = jobOf(response.Payload); err != nil {
			return jobs.Lease{}, fmt.Errorf("lease a job: %w", err)
		}
	}
	h := &heldLease{entry: e, attempt: response.RetryCount + 1, failures: response.Failures, extendedAt: response.asked}
	h.clean = !a.dropRetained(e.JobID) && h.attempt == 1 && e.Kind != "" && job.Input == "" && len(job.Inputs) == 0
	if e.Kind != "" {
		h.progressAt = response.asked.Add(progressAfter - progressEvery)
	}
	a.mu.Lock()
	a.leases[e.LeaseID] = h
	a.mu.Unlock()
	return jobs.Lease{
		ID:  e.LeaseID,
		Job: job,
		// From now and not from when it was asked for, which may have been long ago: then
		// there is a heartbeat before the job starts, which makes it true.
		Until: e.LeasedAt.Add(e.ttl()), TTL: e.ttl(),
		Delivery: response.RetryCount + 1,
	}, nil
}

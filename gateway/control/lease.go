package control

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// leaseRequest is what to ask the queue for, and how long to wait.
type leaseRequest struct {
	queue.LeaseRequest
	most    int  // jobs
	several bool // the worker has asked for several: it gets a list
	wait    time.Duration
}

func parseLease(a *wire.LeaseRequest) (req leaseRequest, err error) {
	if a.RequestID != "" && !isWord(a.RequestID) {
		return req, invalid("request_id", "want 1 to 64 of A-Z a-z 0-9 . _ -")
	}
	if req.most, req.several = 1, a.Max != nil; req.several {
		if req.most = *a.Max; req.most < 1 || req.most > wire.MaxBatch {
			return req, invalid("max", "want 1 to %d", wire.MaxBatch)
		}
	}
	req.RequestID, req.Renews = a.RequestID, slices.Contains(a.Features, wire.FeatureRenew)
	req.Inputs = slices.Contains(a.Features, wire.FeatureInputs)
	if req.Kinds, err = parseKinds(a.Kinds); err != nil {
		return req, err
	}
	req.wait, err = waitOf(a.WaitSeconds)
	return req, err
}

// parseKinds returns the kinds that a worker asks for, each once.
func parseKinds(names []string) ([]jobs.Kind, error) {
	if len(names) > wire.MaxKinds {
		return nil, invalid("kinds", "want at most %d", wire.MaxKinds)
	}
	var kinds []jobs.Kind
	for _, name := range names {
		if !ValidKind(jobs.Kind(name)) {
			return nil, invalid("kinds", "%.80q is no name of a kind", name)
		}
		if kind := plainKind(jobs.Kind(name)); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}

func (c *Control) lease(ctx context.Context, from call, req leaseRequest) (any, error) {
	if len(req.Kinds) == 0 {
		req.Kinds = []jobs.Kind{plainKind(from.Kind)}
	} else if req.Kinds = slices.DeleteFunc(req.Kinds, func(kind jobs.Kind) bool { return !c.knows(kind) }); len(req.Kinds) == 0 {
		return nil, errNoKind
	}
	grants, turnedAway, err := c.waitForJobs(ctx, from.Caller, req)
	switch {
	case err != nil:
		return nil, err
	case len(grants) == 0:
		c.Metrics.empty.Inc()
		return noJob{turnedAway}, nil
	}
	c.Metrics.leases.Add(float64(len(grants)))
	if !req.several {
		return leaseResponse(grants[0]), nil
	}
	return leasesResponse(grants), nil
}

func leaseResponse(g queue.Grant) *wire.LeaseResponse {
	return &wire.LeaseResponse{
		JobID: string(g.Job), Payload: json.RawMessage(g.Payload), LeaseID: g.LeaseID, LeaseTTLSeconds: g.TTL.Seconds(), RetryCount: g.Retries,
		Kind: string(g.Kind), Failures: g.Failures,
	}
}

func leasesResponse(grants []queue.Grant) *wire.LeasesResponse {
	all := &wire.LeasesResponse{}
	for _, g := range grants {
		all.Jobs = append(all.Jobs, *leaseResponse(g))
	}
	return all
}

// severalInputs is the line of those that wait for jobs with several inputs, too. It is the name of no kind.
const severalInputs jobs.Kind = "several inputs"

// waitForJobs leases jobs, and waits for one if there is none: until the time is
// over, the server stops or the caller goes away, with no Grant then.
// It is turned away, without waiting, when too many wait already.
func (c *Control) waitForJobs(ctx context.Context, caller queue.Caller, want leaseRequest) (grants []queue.Grant, turned bool, err error) {
	var (
		over  <-chan time.Time
		woken bool
		by    jobs.Kind // of the job that has woken it
		lines = want.Kinds
	)
	if want.Inputs {
		lines = append(slices.Clone(lines), severalInputs)
	}
	for {
		seen := c.waiting.seen()
		var worker string
		grants, worker, err = c.tryLease(ctx, caller, want)
		if woken && (err != nil && !errors.Is(err, jobs.ErrUnavailable) || len(grants) > 0 && !slices.ContainsFunc(grants, func(g queue.Grant) bool { return g.Kind == by })) {
			c.waiting.wake(by, 1) // the job is still there, for another
		}
		if woken && err == nil && len(grants) == 0 && !want.Inputs && by != "" {
			c.waiting.pass(by, severalInputs)
		}
		if err != nil || len(grants) > 0 || want.wait <= 0 {
			return grants, false, err
		}
		if over == nil {
			over = time.After(want.wait)
			defer hold(ctx)()
		}
		me := c.waiting.join(seen, worker, lines...)
		if me == nil {
			return nil, true, nil
		}
		select {
		case <-me.woken:
			if ctx.Err() != nil {
				c.waiting.wake(me.by, 1) // it is somebody else's turn
				return nil, false, nil
			}
			woken, by = true, me.by
			continue
		case <-ctx.Done():
		case <-httpd.Stopping(ctx):
		case <-over:
		}
		c.waiting.leave(me)
		return nil, false, nil
	}
}

// tryLease leases jobs if there are any. worker is who asks, when there are none.
func (c *Control) tryLease(ctx context.Context, caller queue.Caller, want leaseRequest) (grants []queue.Grant, worker string, err error) {
	// A call that is broken off may have leased a job all the same.
	call, cancel := c.deadline(context.WithoutCancel(ctx))
	defer cancel()
	grants, worker, err = c.Queue.LeaseJobs(call, caller, want.LeaseRequest, want.most)
	if err == nil && ctx.Err() != nil && want.RequestID == "" {
		// The caller has gone, and has no means to ask for these leases again.
		for _, g := range grants {
			c.handBack(context.WithoutCancel(ctx), caller, g)
		}
		return nil, worker, nil
	}
	return grants, worker, err
}

func (c *Control) handBack(ctx context.Context, caller queue.Caller, g queue.Grant) {
	caller.Kind = g.Kind
	_, err := c.Queue.Fail(ctx, caller, g.Job, g.LeaseID, queue.Failure{
		Code: wire.FailWorkerShutdown, Message: "the worker has gone before it got the job", RetryPolicy: queue.ReturnUncounted,
	})
	if err != nil { // its lease will run out
		c.Log.WarnContext(ctx, "cannot hand back a lease that no worker got", "job", g.Job, "err", err)
		return
	}
	c.waiting.wake(g.Kind, 1)
}

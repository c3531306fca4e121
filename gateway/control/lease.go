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
	wait time.Duration
}

func parseLease(a *wire.LeaseRequest) (req leaseRequest, err error) {
	if a.RequestID != "" && !isWord(a.RequestID) {
		return req, invalid("request_id", "want 1 to 64 of A-Z a-z 0-9 . _ -")
	}
	req.RequestID, req.Renews = a.RequestID, slices.Contains(a.Features, wire.FeatureRenew)
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
	g, turnedAway, err := c.waitForJob(ctx, from.Caller, req.LeaseRequest, req.wait)
	switch {
	case err != nil:
		return nil, err
	case g.Job == "":
		c.Metrics.empty.Inc()
		return noJob{turnedAway}, nil
	}
	c.Metrics.leases.Inc()
	return leaseResponse(g), nil
}

func leaseResponse(g queue.Grant) *wire.LeaseResponse {
	return &wire.LeaseResponse{
		JobID: string(g.Job), Payload: json.RawMessage(g.Payload), LeaseID: g.LeaseID, LeaseTTLSeconds: g.TTL.Seconds(), RetryCount: g.Retries,
		Kind: string(g.Kind), Failures: g.Failures,
	}
}

// waitForJob leases a job, and waits for one if there is none: until the time is
// over, the server stops or the caller goes away, with an empty Grant then.
// It is turned away, without waiting, when too many wait already.
func (c *Control) waitForJob(ctx context.Context, caller queue.Caller, want queue.LeaseRequest, longest time.Duration) (g queue.Grant, turned bool, err error) {
	var (
		over  <-chan time.Time
		woken bool
		by    jobs.Kind // of the job that has woken it
	)
	for {
		seen := c.waiting.seen()
		g, err = c.tryLease(ctx, caller, want)
		if woken && (err != nil && !errors.Is(err, jobs.ErrUnavailable) || err == nil && g.Job != "" && g.Kind != by) {
			c.waiting.wake(by, 1) // the job is still there, for another
		}
		if err != nil || g.Job != "" || longest <= 0 {
			return g, false, err
		}
		if over == nil {
			over = time.After(longest)
			defer hold(ctx)()
		}
		me := c.waiting.join(seen, g.Worker, want.Kinds...)
		if me == nil {
			return g, true, nil
		}
		select {
		case <-me.woken:
			if ctx.Err() != nil {
				c.waiting.wake(me.by, 1) // it is somebody else's turn
				return g, false, nil
			}
			woken, by = true, me.by
			continue
		case <-ctx.Done():
		case <-httpd.Stopping(ctx):
		case <-over:
		}
		c.waiting.leave(me)
		return g, false, nil
	}
}

// tryLease leases a job if there is one.
func (c *Control) tryLease(ctx context.Context, caller queue.Caller, want queue.LeaseRequest) (queue.Grant, error) {
	// A call that is broken off may have leased a job all the same.
	call, cancel := c.deadline(context.WithoutCancel(ctx))
	defer cancel()
	g, err := c.Queue.Lease(call, caller, want)
	if err != nil {
		return g, err
	}
	if g.Job != "" && ctx.Err() != nil && want.RequestID == "" {
		// The caller has gone, and has no means to ask for this lease again.
		c.handBack(context.WithoutCancel(ctx), caller, g)
		return queue.Grant{}, nil
	}
	return g, nil
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

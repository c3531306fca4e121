package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// SetKinds replaces Kinds. It may be called at any time.
func (a *Agent) SetKinds(kinds []jobs.Kind) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Kinds = kinds
}

// others returns the kinds beside zpe.
func (a *Agent) others() []jobs.Kind {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Kinds
}

// kindsPlane is a [ControlPlane] that hands out jobs of some kinds only.
type kindsPlane interface {
	// HasKind reports whether it has a kind.
	HasKind(ctx context.Context, kind jobs.Kind) (bool, error)
}

var _ kindsPlane = (*Client)(nil)

// HasKind implements [kindsPlane]. It changes nothing there.
func (c *Client) HasKind(ctx context.Context, kind jobs.Kind) (bool, error) {
	err := c.check(ctx, kindPath(string(kind), wire.PathHeartbeat))
	if e := (*Error)(nil); errors.As(err, &e) && e.Code == wire.NotFound {
		return false, nil
	}
	return err == nil, err
}

// knowledge is whether the control plane has a kind. The zero value means that it is not known: such a
// kind is asked for.
type knowledge int

const (
	present knowledge = iota + 1
	absent
)

// lookForKindsEvery is how often a control plane is asked for the kinds that it is not known to have. It may
// be started again with another kinds file.
const lookForKindsEvery = time.Minute

// lookForKinds asks the control plane which of the worker's kinds it has: it hands out no jobs of the others,
// and does not say so.
func (a *Agent) lookForKinds(ctx context.Context) {
	plane, ok := a.Gateway.(kindsPlane)
	if !ok {
		return
	}
	for _, kind := range a.others() {
		if a.knows(kind) == present {
			continue
		}
		has, err := plane.HasKind(ctx, kind)
		if err != nil {
			return // the same error comes of requests for jobs, and is in the log
		}
		if has {
			a.learn(ctx, kind, present)
		} else {
			a.learn(ctx, kind, absent)
		}
	}
}

// keepLooking calls lookForKinds again and again, until ctx ends.
func (a *Agent) keepLooking(ctx context.Context) {
	for jobs.Sleep(ctx, lookForKindsEvery) == nil {
		a.lookForKinds(ctx)
	}
}

func (a *Agent) knows(kind jobs.Kind) knowledge {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known[kind]
}

// learn notes whether the control plane has a kind.
func (a *Agent) learn(ctx context.Context, kind jobs.Kind, k knowledge) {
	a.mu.Lock()
	before := a.known[kind]
	a.known[kind] = k
	a.mu.Unlock()
	switch {
	case k == absent && before != absent:
		a.Log.WarnContext(ctx, "the gateway does not have a kind of this worker, so no jobs of it come: add it to the gateway's KINDS_FILE", "kind", kind)
	case k == present && before == absent:
		a.Log.InfoContext(ctx, "the gateway has the kind now", "kind", kind)
	}
}

// leasable returns those of some kinds that the control plane is not known to lack, and whether it lacks all that
// this worker runs.
func (a *Agent) leasable(kinds []jobs.Kind) (some []jobs.Kind, none bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	lacks := func(kind jobs.Kind) bool { return a.known[kind] == absent }
	some = slices.DeleteFunc(slices.Clone(kinds), lacks)
	return some, a.Kind == "" && !slices.ContainsFunc(a.Kinds, func(kind jobs.Kind) bool { return !lacks(kind) })
}

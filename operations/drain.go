package operations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
)

// drain lets the jobs in hand finish and leases no more. Leasing stays off until
// the next start, also when the time is over or the job is canceled.
type drain struct {
	jobapi.Options
	pollInterval
	d      Deps
	notice time.Duration // how long a worker may take to learn of it; tests wait for less
}

// Check implements [engine.Request].
func (o *drain) Check() error { return o.checkPoll() }

// Echo implements [engine.Request].
func (o *drain) Echo() any {
	return struct {
		jobapi.Options
		PollIntervalMs *int64 `json:"pollIntervalMs"`
	}{o.Options, o.PollIntervalMs}
}

// Steps implements [engine.Request].
func (o *drain) Steps() []engine.Step {
	return []engine.Step{
		{Name: "stop-leasing", AlreadyDone: o.stopped, Description: "let workers lease no more jobs", Run: o.stop},
		{Name: "wait", Description: "wait until no job is held", Run: o.wait},
	}
}

func (o *drain) stopped(ctx context.Context) (string, bool, error) {
	return leasingIs(ctx, o.d, false, "workers lease no jobs already")
}

func (o *drain) stop(ctx context.Context, r engine.Run) (string, error) {
	if err := setLeasing(ctx, o.d, r, false); err != nil {
		return "", err
	}
	return "workers lease no more jobs", nil
}

// drained is the result of a drain.
type drained struct {
	Fleet    *int  `json:"fleet"`   // jobs that were held at the beginning; null without a fleet
	Gateway  *int  `json:"gateway"` // leases
	WaitedMs int64 `json:"waitedMs"`
}

// staysOff is what whoever ends a drain early must know.
const staysOff = "leasing stays off until system/start (batchfleet run start)"

// wait waits until no job is held, and for at least o.notice: until then a worker may
// not know of the drain and lease one more. It fails when leasing is on again, by
// another server or because Redis has lost its keys. Then an empty fleet proves
// nothing.
func (o *drain) wait(ctx context.Context, r engine.Run) (string, error) {
	r.Logf(staysOff + ", also when this job fails or is canceled")
	begun, first := time.Now(), drained{}
	var asked string     // since when the fleet is asked to drain; another time is another drain
	var seenAt time.Time // when that was first seen
	err := poll(ctx, o.every(), r, func(ctx context.Context) (bool, error) {
		now, err := held(ctx, o.d)
		if err != nil {
			return false, err
		}
		// After it, so that nothing was leased before what is held was counted.
		since, off, err := o.asked(ctx)
		if err != nil {
			return false, err
		}
		if seenAt.IsZero() {
			asked, seenAt, first = since, time.Now(), now
		}
		if !off || since != asked {
			return false, &engine.Failure{Code: "LEASING_RESUMED", Err: errors.New("somebody has let workers lease again: drain again")}
		}
		left := number(now.Fleet) + number(now.Gateway)
		if left > 0 {
			r.Message(jobs.Count(left, "job") + " left; " + staysOff)
			return false, nil
		}
		r.Message("no job is left, waiting for workers that have not heard yet; " + staysOff)
		return o.d.Status == nil || time.Since(seenAt) >= o.notice, nil
	})
	if err != nil {
		return "", err
	}
	first.WaitedMs = time.Since(begun).Milliseconds()
	r.Result(first)
	return "no job is held", nil
}

// asked returns since when the fleet is asked to drain, and whether no worker may
// lease a job.
func (o *drain) asked(ctx context.Context) (since string, off bool, err error) {
	if o.d.Status != nil {
		if since, err = o.d.Status.Draining(ctx); err != nil {
			return "", false, err
		}
	}
	_, off, err = leasingIs(ctx, o.d, false, "")
	return since, off, err
}

// held counts what is held just now.
func held(ctx context.Context, d Deps) (now drained, err error) {
	if d.Status != nil {
		holders, err := d.Status.Held(ctx)
		if err != nil {
			return now, err
		}
		now.Fleet = new(len(holders))
	}
	if d.Queue != nil {
		stats, err := d.Queue.Stats(ctx)
		if err != nil {
			return now, err
		}
		now.Gateway = &stats.Leased
	}
	return now, nil
}

func number(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// count is how many there are of what.
type count struct {
	n    int
	what string
}

// listed writes counts, without those of none.
func listed(counts ...count) string {
	var parts []string
	for _, c := range counts {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(parts, ", ")
}

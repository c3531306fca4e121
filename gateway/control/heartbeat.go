package control

import (
	"context"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// heartbeatsOfJob is how many heartbeats of one job may wait: its worker needs one, and
// another when the answer to that was lost.
const heartbeatsOfJob = 4

// maxSteps bounds the steps of a progress: integers up to here are exact in any
// language's numbers.
const maxSteps = 1 << 53

// heartbeat is what a heartbeat tells, and how long to hold its answer.
type heartbeat struct {
	queue.Beat
	log  queue.Log // for the job's log
	wait time.Duration
}

// parseHeartbeat cuts a message that is too long: it must not cost the worker its lease.
func parseHeartbeat(a *wire.HeartbeatRequest) (h heartbeat, err error) {
	h.Message = shown(a.Message, wire.MaxErrorMessage)
	if p := a.Progress; p != nil {
		if p.Done < 0 || p.Total < 0 || p.Done > maxSteps || p.Total > maxSteps {
			return h, invalid("progress", "want done and total from 0 to 2^53")
		}
		h.Done, h.Total = p.Done, p.Total
	}
	if a.Log != nil {
		if h.log, err = parseLog(*a.Log); err != nil {
			return h, err
		}
	}
	h.wait, err = waitOf(a.WaitSeconds)
	return h, err
}

// parseLog cuts lines that are too long, and leaves out the first ones of too many.
func parseLog(l wire.Log) (queue.Log, error) {
	if l.Before < 0 || l.Before > maxSteps {
		return queue.Log{}, invalid("log.before", "want 0 to 2^53")
	}
	over := max(0, len(l.Lines)-wire.MaxLogLines)
	cut := queue.Log{Before: l.Before + over}
	for _, line := range l.Lines[over:] {
		cut.Lines = append(cut.Lines, shown(line, wire.MaxLogLine))
	}
	return cut, nil
}

// beat extends a lease, and adds the lines of a heartbeat to the job's log. After an error both may have been done:
// a heartbeat can be repeated.
func beat(ctx context.Context, q *queue.Queue, c queue.Caller, id jobs.ID, lease string, h heartbeat) (queue.Extended, error) {
	e, err := q.Extend(ctx, c, id, lease, h.Beat)
	if err == nil && len(h.log.Lines) > 0 {
		err = q.Write(ctx, c, []queue.LogOf{{Job: id, Lease: lease, Log: h.log}})[0]
	}
	return e, err
}

// heartbeat extends a lease, and then waits for its job to be canceled: until the time
// is over, the server stops or the caller goes away. It does not wait when too many do.
func (c *Control) heartbeat(ctx context.Context, from call, h heartbeat) (any, error) {
	if h.wait <= 0 {
		e, err := beat(ctx, c.Queue, from.Caller, from.job, from.lease, h)
		return c.heartbeatResponse(from, e, false, err)
	}
	me := c.heartbeats.join(c.heartbeats.seen(), string(from.job)) // before the first call: a cancel after it is heard of
	if me != nil {
		defer c.heartbeats.leave(me)
	}
	e, err := beat(ctx, c.Queue, from.Caller, from.job, from.lease, h)
	if err != nil || e.Cancel || me == nil {
		return c.heartbeatResponse(from, e, e.Cancel, err)
	}
	defer hold(ctx)()
	over := time.After(h.wait)
	for {
		select {
		case <-me.woken:
			// What the lease says now counts; what woke this one may be old.
			if e, err = c.Queue.Extend(ctx, from.Caller, from.job, from.lease, queue.Beat{}); err != nil || e.Cancel {
				return c.heartbeatResponse(from, e, true, err)
			}
			continue
		case <-ctx.Done():
		case <-httpd.Stopping(ctx):
		case <-over:
		}
		e.TTL = remaining(c.Queue, e)
		return c.heartbeatResponse(from, e, true, nil)
	}
}

func (c *Control) heartbeatResponse(from call, e queue.Extended, waited bool, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	c.Metrics.heartbeats.Inc()
	return heartbeatResponse(from.lease, e, waited), nil
}

func heartbeatResponse(lease string, e queue.Extended, waited bool) wire.HeartbeatResponse {
	return wire.HeartbeatResponse{
		LeaseID: lease, LeaseTTLSeconds: e.TTL.Seconds(), ExpiresAt: float64(e.Until.UnixMilli()) / 1000, CancelRequested: e.Cancel, Waited: waited,
	}
}

// remaining returns how long a lease lasts that was extended some time ago.
func remaining(q *queue.Queue, e queue.Extended) time.Duration {
	return max(0, e.Until.Sub(q.Now())).Round(time.Millisecond)
}

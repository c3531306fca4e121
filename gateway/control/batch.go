package control

import (
	"context"
	"errors"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// report is one entry of a batch: what a request for it alone would have in its path and its body.
type report[T any] struct {
	job   jobs.ID
	lease string
	what  T
	err   error // what is wrong with it
}

// newReport checks an entry. The other entries are judged by themselves.
func newReport[T any](job, lease string, what T, err error) report[T] {
	r := report[T]{lease: lease, what: what, err: err}
	id, noJob := parseID(job)
	if r.job = id; noJob != nil { // the order in which a single request is judged
		r.err = noJob
	} else if err == nil {
		r.err = checkLease(lease)
	}
	return r
}

func checkBatch(field string, n int) error {
	if n < 1 || n > wire.MaxBatch {
		return invalid(field, "want 1 to %d", wire.MaxBatch)
	}
	return nil
}

func parseResults(a *wire.ResultsRequest) ([]report[queue.Result], error) {
	if err := checkBatch("results", len(a.Results)); err != nil {
		return nil, err
	}
	all := make([]report[queue.Result], len(a.Results))
	for i, one := range a.Results {
		alone := one.Alone(a.Kind)
		result, err := parseResult(&alone)
		all[i] = newReport(one.JobID, one.LeaseID, result, err)
	}
	return all, nil
}

// results records several results, with a verdict on each.
func (c *Control) results(ctx context.Context, from call, reports []report[queue.Result]) (any, error) {
	ctx, cancel := c.deadline(context.WithoutCancel(ctx)) // as for a single one
	defer cancel()
	verdicts := make([]queue.Verdict, len(reports))
	var good []queue.ResultOf
	var places []int
	for i, r := range reports {
		if verdicts[i].Err = r.err; r.err == nil {
			good, places = append(good, queue.ResultOf{Job: r.job, Lease: r.lease, Result: r.what}), append(places, i)
		}
	}
	if err := c.noneGood(ctx, from, len(good)); err != nil {
		return nil, err
	}
	for n, v := range c.Queue.FinishAll(ctx, from.Caller, good) {
		if errors.Is(v.Err, queue.ErrFinished) {
			v.Recorded, v.Err = compare(ctx, c.Queue, good[n].Job, good[n].Result, v.Err)
		}
		verdicts[places[n]] = v
	}
	all := wire.ResultsResponse{Results: make([]wire.ResultVerdict, len(reports))}
	for i, v := range verdicts {
		if err := ofAll(v.Err); err != nil {
			return nil, err
		}
		all.Results[i].JobID = string(reports[i].job)
		response, err := c.recorded(ctx, reports[i].job, reports[i].lease, v)
		if err != nil {
			all.Results[i].Refusal = c.refusalOf(ctx, err)
		} else {
			all.Results[i].ReportResponse = &response
		}
	}
	return all, nil
}

func parseHeartbeats(a *wire.HeartbeatsRequest) ([]report[heartbeat], error) {
	if err := checkBatch("heartbeats", len(a.Heartbeats)); err != nil {
		return nil, err
	}
	all := make([]report[heartbeat], len(a.Heartbeats))
	for i, one := range a.Heartbeats {
		h, err := parseHeartbeat(&one.HeartbeatRequest)
		all[i] = newReport(one.JobID, one.LeaseID, h, err)
	}
	return all, nil
}

// heartbeatAll extends several leases, with an answer to each. None of them waits.
func (c *Control) heartbeatAll(ctx context.Context, from call, reports []report[heartbeat]) (any, error) {
	var good []queue.Heartbeat
	var places []int
	errs := make([]error, len(reports))
	for i, r := range reports {
		if errs[i] = r.err; r.err == nil {
			good, places = append(good, queue.Heartbeat{Job: r.job, Lease: r.lease, Beat: r.what.Beat}), append(places, i)
		}
	}
	if err := c.noneGood(ctx, from, len(good)); err != nil {
		return nil, err
	}
	all := wire.HeartbeatsResponse{Heartbeats: make([]wire.HeartbeatVerdict, len(reports))}
	extended, failed := c.Queue.ExtendAll(ctx, from.Caller, good)
	var logs []queue.LogOf
	var of []int
	for n, err := range failed {
		if log := reports[places[n]].what.log; err == nil && len(log.Lines) > 0 {
			logs, of = append(logs, queue.LogOf{Job: good[n].Job, Lease: good[n].Lease, Log: log}), append(of, n)
		}
	}
	for i, err := range c.Queue.Write(ctx, from.Caller, logs) {
		failed[of[i]] = err
	}
	for n, e := range extended {
		err := failed[n]
		if errs[places[n]] = err; err == nil {
			c.Metrics.heartbeats.Inc()
			response := heartbeatResponse(good[n].Lease, e, false)
			all.Heartbeats[places[n]].HeartbeatResponse = &response
		}
	}
	for i, err := range errs {
		if err := ofAll(err); err != nil {
			return nil, err
		}
		all.Heartbeats[i].JobID = string(reports[i].job)
		if err != nil {
			all.Heartbeats[i].Refusal = c.refusalOf(ctx, err)
		}
	}
	return all, nil
}

// noneGood checks the token of a caller if none of its reports is good: then none goes to the queue,
// which would check it.
func (c *Control) noneGood(ctx context.Context, from call, good int) error {
	if good > 0 {
		return nil
	}
	_, err := c.Queue.Authorize(ctx, from.Caller)
	return err
}

// ofAll returns err if it is about the caller or about Redis, and so about all reports; nil otherwise.
func ofAll(err error) error {
	if denial(err) != "" || errors.Is(err, jobs.ErrUnavailable) {
		return err
	}
	return nil
}

// refusalOf returns what a request for one report would have been answered.
func (c *Control) refusalOf(ctx context.Context, err error) *wire.Refusal {
	e := refusal(err)
	if e == nil {
		c.Log.ErrorContext(ctx, "cannot record one of several reports", "err", err)
		e = errInternal
	}
	return &wire.Refusal{Status: e.Status, Error: wire.ErrorInfo{Code: e.Code, Message: e.Message, Details: detailsOf(err)}}
}

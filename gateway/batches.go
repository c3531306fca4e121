package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/batch"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// MaxInline is how large a result may be, in bytes, that shares a request with others, and that [Agent.Finish] takes
// as a text and not as an object of the agent's store.
const MaxInline = 64 << 10

// gatherFor is how long a request for jobs, or one with their results, waits for others to join it. Jobs that were
// leased together and end at once so go on together.
const gatherFor = 5 * time.Millisecond

// requestsAtOnce is how many requests with results, or with heartbeats, a client has on their way.
const requestsAtOnce = 2

// batches are the calls of a client that share requests: results and heartbeats that come while
// requests with others are on their way go with the next one.
//
// An older control plane, which knows no batches, answers a lease request for several jobs with one job. One
// that answers with a list takes batches. It gets them until it answers that it has no such route.
type batches struct {
	taken atomic.Bool // the control plane takes batches

	mu      sync.Mutex
	results map[string]*batch.Group[wire.JobResult, wire.ReportResponse] // by kind
	beats   map[string]*batch.Group[wire.JobHeartbeat, wire.HeartbeatResponse]
}

// errAlone means that a report must be sent by itself.
var errAlone = errors.New("send it by itself")

// Batches implements [BatchPlane].
func (c *Client) Batches() bool { return c.batches.taken.Load() }

// LeaseJobs implements [BatchPlane].
func (c *Client) LeaseJobs(ctx context.Context, request wire.LeaseRequest) ([]wire.LeaseResponse, error) {
	var a struct {
		wire.LeaseResponse // of a control plane that does not know Max
		wire.LeasesResponse
	}
	none, err := c.call(ctx, call{
		path: kindPath(request.Kind, wire.PathLease), request: request, response: &a, wait: waitOf(request.WaitSeconds), limit: maxLeases, empty: true,
	})
	switch {
	case err != nil || none:
	case a.Jobs == nil:
		a.Jobs = []wire.LeaseResponse{a.LeaseResponse}
		err = checkLease(&a.Jobs[0])
	default:
		if err = checkLeases(a.Jobs); err == nil {
			c.batches.taken.Store(true)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lease jobs: %w", err)
	}
	return a.Jobs, nil
}

// maxLeases bounds the response to a lease request for several jobs: their payloads come to a mebibyte
// before the last one.
const maxLeases = 2*wire.MaxPayload + wire.MaxSmallBody

func checkLeases(all []wire.LeaseResponse) error {
	if len(all) == 0 || len(all) > wire.MaxBatch {
		return errBadResponse(fmt.Sprintf("%d jobs", len(all)))
	}
	ids := map[string]bool{}
	for i := range all {
		if err := checkLease(&all[i]); err != nil {
			return err
		}
		if ids[all[i].LeaseID] {
			return errBadResponse("two jobs under one lease")
		}
		ids[all[i].LeaseID] = true
	}
	return nil
}

func waitOf(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// share makes a call in the group of its kind. If ok is false it was not made, and must be made alone.
func share[V, A any](ctx context.Context, c *Client, groups *map[string]*batch.Group[V, A], kind string, v V, send func(context.Context, string, []V) ([]batch.Answer[A], error)) (a A, ok bool, err error) {
	if !c.batches.taken.Load() {
		return a, false, nil
	}
	c.batches.mu.Lock()
	g := (*groups)[kind]
	if g == nil {
		if *groups == nil {
			*groups = map[string]*batch.Group[V, A]{}
		}
		g = &batch.Group[V, A]{Max: wire.MaxBatch, Calls: requestsAtOnce, Gather: gatherFor, Send: func(ctx context.Context, values []V) []batch.Answer[A] {
			answers, err := send(ctx, kind, values)
			if err == nil {
				return answers
			}
			answers = make([]batch.Answer[A], len(values))
			for i := range answers {
				answers[i].Err = c.failedBatch(err)
			}
			return answers
		}}
		(*groups)[kind] = g
	}
	c.batches.mu.Unlock()
	a, err = g.Do(ctx, v)
	return a, !errors.Is(err, errAlone), err
}

// failedBatch returns what a request that has failed means for each of its reports.
func (c *Client) failedBatch(err error) error {
	e := (*Error)(nil)
	switch {
	case !errors.As(err, &e):
	case e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed:
		c.batches.taken.Store(false) // an older gateway, or a proxy that passes only older routes
		return errAlone
	case e.decided() && e.Status != http.StatusUnauthorized && e.Status != http.StatusForbidden:
		return errAlone // all of them together are too large, or one of them spoils the others
	}
	return err
}

// sendResults sends results in one request. A single one goes in the form for one job.
func (c *Client) sendResults(ctx context.Context, kind string, results []wire.JobResult) ([]batch.Answer[wire.ReportResponse], error) {
	if len(results) == 1 {
		value, err := c.result(ctx, results[0].JobID, results[0].Alone(kind))
		return []batch.Answer[wire.ReportResponse]{{Value: value, Err: err}}, nil
	}
	var a wire.ResultsResponse
	if _, err := c.call(ctx, call{path: kindPath(kind, wire.PathResults), request: wire.ResultsRequest{Results: results}, response: &a}); err != nil {
		return nil, err
	}
	return resultAnswers(results, a)
}

// resultAnswers returns what a response means for each of the results.
func resultAnswers(results []wire.JobResult, a wire.ResultsResponse) ([]batch.Answer[wire.ReportResponse], error) {
	if len(a.Results) != len(results) {
		return nil, errBadResponse(fmt.Sprintf("%d verdicts on %d results", len(a.Results), len(results)))
	}
	answers := make([]batch.Answer[wire.ReportResponse], len(results))
	for i, v := range a.Results {
		switch {
		case v.JobID != results[i].JobID:
			answers[i].Err = errBadResponse("another job_id")
		case v.Refusal != nil:
			answers[i].Err = refused(v.Refusal)
		case v.ReportResponse == nil || !v.OK:
			answers[i].Err = errBadResponse("missing ok=true")
		default:
			answers[i].Value = *v.ReportResponse
		}
	}
	return answers, nil
}

// sendHeartbeats is sendResults for heartbeats.
func (c *Client) sendHeartbeats(ctx context.Context, kind string, beats []wire.JobHeartbeat) ([]batch.Answer[wire.HeartbeatResponse], error) {
	if len(beats) == 1 {
		value, err := c.heartbeat(ctx, beats[0].JobID, beats[0].HeartbeatRequest)
		return []batch.Answer[wire.HeartbeatResponse]{{Value: value, Err: err}}, nil
	}
	var a wire.HeartbeatsResponse
	if _, err := c.call(ctx, call{path: kindPath(kind, wire.PathHeartbeats), request: wire.HeartbeatsRequest{Heartbeats: beats}, response: &a}); err != nil {
		return nil, err
	}
	return heartbeatAnswers(beats, a)
}

// heartbeatAnswers returns what a response means for each of the heartbeats.
func heartbeatAnswers(beats []wire.JobHeartbeat, a wire.HeartbeatsResponse) ([]batch.Answer[wire.HeartbeatResponse], error) {
	if len(a.Heartbeats) != len(beats) {
		return nil, errBadResponse(fmt.Sprintf("%d answers to %d heartbeats", len(a.Heartbeats), len(beats)))
	}
	answers := make([]batch.Answer[wire.HeartbeatResponse], len(beats))
	for i, v := range a.Heartbeats {
		switch {
		case v.JobID != beats[i].JobID:
			answers[i].Err = errBadResponse("another job_id")
		case v.Refusal != nil:
			answers[i].Err = refused(v.Refusal)
		case v.HeartbeatResponse == nil || v.LeaseID != beats[i].LeaseID:
			answers[i].Err = errBadResponse("another lease_id")
		default:
			answers[i].Value = *v.HeartbeatResponse
		}
	}
	return answers, nil
}

// refused returns the error that the answer to one report means.
func refused(r *wire.Refusal) error {
	if r.Status < 400 || r.Status > 599 || !jobs.ValidCode(string(r.Error.Code)) {
		return errBadResponse(fmt.Sprintf("status %d of one report", r.Status))
	}
	return &Error{Status: r.Status, Code: r.Error.Code, Message: messageOf(r.Error)}
}

package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/batchfleet/batchfleet/gateway/wire"
)

func (p *plane) knowsBatches() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.batches
}

// leases is lease for a request that may be for several jobs.
func (p *plane) leases(r *http.Request, body []byte) answer {
	var ask wire.LeaseRequest
	a := p.lease(r, body)
	if _ = json.Unmarshal(body, &ask); a.status != 200 || ask.Max == nil { // lease has read it
		return a
	}
	first, _ := a.body.(wire.LeaseResponse)
	all := []wire.LeaseResponse{first}
	p.mu.Lock()
	defer p.mu.Unlock()
	part := func(i int) wire.LeaseRequest {
		one := ask
		one.RequestID = fmt.Sprintf("%s-%d", ask.RequestID, i)
		return one
	}
	for i := 1; i < wire.MaxBatch; i++ { // what the request has got before
		if was, ok := p.requests[part(i).RequestID]; ok && p.jobs[was[0]].lease == was[1] {
			all = append(all, p.tryLease(part(i)).body.(wire.LeaseResponse))
		}
	}
	for i := len(all); i < *ask.Max && len(p.queue) > 0; i++ {
		all = append(all, p.tryLease(part(i)).body.(wire.LeaseResponse))
	}
	return answer{status: 200, body: wire.LeasesResponse{Jobs: all}}
}

// reportsOf answers each report of a batch as it would answer it alone.
func (p *plane) reportsOf(ctx context.Context, route string, body []byte) answer {
	var ask struct{ Results, Heartbeats []json.RawMessage }
	if err := json.Unmarshal(body, &ask); err != nil || len(ask.Results)+len(ask.Heartbeats) < 1 || len(ask.Results)+len(ask.Heartbeats) > wire.MaxBatch {
		return refuse(400, wire.InvalidPayload, "Invalid field "+route)
	}
	var all []map[string]any
	for _, one := range append(ask.Results, ask.Heartbeats...) {
		var of struct {
			JobID string `json:"job_id"`
		}
		if err := json.Unmarshal(one, &of); err != nil {
			return refuse(400, wire.InvalidPayload, err.Error())
		}
		var a answer
		if route == "results" {
			a = p.result(of.JobID, one)
		} else {
			a = p.beat(ctx, of.JobID, one)
		}
		text, _ := json.Marshal(a.body)
		verdict := map[string]any{}
		_ = json.Unmarshal(text, &verdict) // it was made a line above
		if verdict["job_id"] = of.JobID; a.status != 200 {
			verdict["status"] = a.status
		}
		all = append(all, verdict)
	}
	return answer{status: 200, body: map[string]any{route: all}}
}

package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// directPoll is how often a Direct that waits for a job looks for one, and one that
// runs a job whether that was canceled.
const directPoll = time.Second

// Direct is the [gateway.ControlPlane] of a worker that may reach Redis itself.
// It asks the same of requests as the gateway does and has no token: whoever can
// write to Redis can do anything. Somewhere a gateway must run all the same, to
// take back leases that have ended.
type Direct struct {
	Queue  *queue.Queue
	Worker string // its id, of the form [A-Za-z0-9._-]{1,64}, and no other worker's
	// Kinds returns the gateway's kinds as they are now, and Files are the gateway's, which the worker reaches
	// itself, with a spool of the worker. A worker that runs kind zpe alone needs neither.
	Kinds func() map[jobs.Kind]Kind
	Files *Files
	Log   *slog.Logger
}

var _ gateway.BatchPlane = (*Direct)(nil)

// NewDirect returns the control plane of a worker, or an error if that cannot be
// a worker's id.
func NewDirect(q *queue.Queue, worker string) (*Direct, error) {
	if !isWord(worker) {
		return nil, fmt.Errorf("worker id %.80q: want 1 to 64 of A-Z a-z 0-9 . _ -", worker)
	}
	return &Direct{Queue: q, Worker: worker, Log: slog.New(slog.DiscardHandler)}, nil
}

func (d *Direct) caller(claimed, kind string) queue.Caller {
	return queue.Caller{Worker: d.Worker, Claimed: claimed, Kind: jobs.Kind(kind)}
}

// Lease implements [gateway.ControlPlane].
func (d *Direct) Lease(ctx context.Context, req wire.LeaseRequest) (*wire.LeaseResponse, error) {
	req.Max = nil
	got, err := d.LeaseJobs(ctx, req)
	if len(got) == 0 {
		return nil, err
	}
	return &got[0], err
}

// LeaseJobs implements [gateway.BatchPlane].
func (d *Direct) LeaseJobs(ctx context.Context, req wire.LeaseRequest) ([]wire.LeaseResponse, error) {
	want, err := parseLease(&req)
	if err != nil {
		return nil, err
	}
	if len(want.Kinds) == 0 {
		want.Kinds = []jobs.Kind{jobs.Kind(req.Kind)}
	}
	over := time.Now().Add(want.wait)
	for {
		grants, _, err := d.Queue.LeaseJobs(ctx, d.caller(req.WorkerID, req.Kind), want.LeaseRequest, want.most)
		if err != nil {
			return nil, outward(err)
		}
		if len(grants) > 0 {
			return leasesResponse(grants).Jobs, nil
		}
		pause := min(directPoll, time.Until(over))
		if pause <= 0 {
			return nil, nil
		}
		if err := jobs.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// Batches implements [gateway.BatchPlane]: the queue has them share a script.
func (d *Direct) Batches() bool { return true }

// Heartbeat implements [gateway.ControlPlane].
func (d *Direct) Heartbeat(ctx context.Context, job string, req wire.HeartbeatRequest) (wire.HeartbeatResponse, error) {
	id, err := parseReport(job, req.LeaseID)
	if err != nil {
		return wire.HeartbeatResponse{}, outward(err)
	}
	h, err := parseHeartbeat(&req)
	if err != nil {
		return wire.HeartbeatResponse{}, err
	}
	extended, err := beat(ctx, d.Queue, d.caller(req.WorkerID, req.Kind), id, req.LeaseID, h)
	if err == nil && h.wait > 0 && !extended.Cancel && d.canceled(ctx, id, h.wait) {
		extended, err = d.Queue.Extend(ctx, d.caller(req.WorkerID, req.Kind), id, req.LeaseID, queue.Beat{})
	}
	if err != nil {
		return wire.HeartbeatResponse{}, outward(err)
	}
	if h.wait > 0 {
		extended.TTL = remaining(d.Queue, extended)
	}
	return heartbeatResponse(req.LeaseID, extended, h.wait > 0), nil
}

// canceled waits until somebody has asked for the job to be stopped, or the time
// is over.
func (d *Direct) canceled(ctx context.Context, id jobs.ID, wait time.Duration) bool {
	over := time.Now().Add(wait)
	for {
		pause := min(directPoll, time.Until(over))
		if pause <= 0 || jobs.Sleep(ctx, pause) != nil {
			return false
		}
		// While Redis is away nothing is known; the lease is the heartbeat's concern.
		if asked, err := d.Queue.CancelRequested(ctx, id); err == nil && asked {
			return true
		}
	}
}

// Result implements [gateway.ControlPlane].
func (d *Direct) Result(ctx context.Context, job string, req wire.ResultRequest) (wire.ReportResponse, error) {
	id, err := parseReport(job, req.LeaseID)
	if err != nil {
		return wire.ReportResponse{}, outward(err)
	}
	if n := len(req.Result) + len(req.Meta) + length(req.SummaryText) + length(req.FreqsCSV); n > wire.MaxResultBody {
		return wire.ReportResponse{}, &gateway.Error{
			Status: 413, Code: wire.PayloadTooLarge, Message: fmt.Sprintf("Result larger than %d bytes", wire.MaxResultBody),
		}
	}
	r, err := parseResult(&req)
	if err != nil {
		return wire.ReportResponse{}, err
	}
	if _, err := httpd.CanonicalJSON(req.Result); err != nil { // over HTTP, ReadJSON has checked it
		return wire.ReportResponse{}, invalid("result", "%v", err)
	}
	rec, _, err := finish(ctx, d.Queue, d.caller(req.WorkerID, req.Kind), id, req.LeaseID, r)
	if err != nil {
		return wire.ReportResponse{}, outward(err)
	}
	return wire.ReportResponse{OK: true, Idempotent: rec.Duplicate}, nil
}

// Failed implements [gateway.ControlPlane].
func (d *Direct) Failed(ctx context.Context, job string, req wire.FailedRequest) (wire.FailedResponse, error) {
	id, err := parseReport(job, req.LeaseID)
	if err != nil {
		return wire.FailedResponse{}, outward(err)
	}
	f, err := parseFailed(&req)
	if err != nil {
		return wire.FailedResponse{}, err
	}
	if d.Kinds != nil {
		kindSet{now: d.Kinds()}.retryByKind(d.Queue, jobs.Kind(req.Kind), &f)
	}
	outcome, err := d.Queue.Fail(ctx, d.caller(req.WorkerID, req.Kind), id, req.LeaseID, f)
	if err != nil {
		return wire.FailedResponse{}, outward(err)
	}
	return failedResponse(outcome), nil
}

func parseReport(job, lease string) (jobs.ID, error) {
	id, err := parseID(job)
	if err != nil {
		return "", err
	}
	return id, checkLease(lease)
}

// outward returns err as an answer of the gateway would say it. Trouble with
// Redis stays what it is: the worker's own log may name it.
func outward(err error) error {
	if e := refusal(err); e != nil && !errors.Is(err, jobs.ErrUnavailable) {
		return e
	}
	return err
}

func length(s *string) int {
	if s == nil {
		return 0
	}
	return len(*s)
}

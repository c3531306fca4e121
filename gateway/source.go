package gateway

import (
	"context"

	"github.com/batchfleet/batchfleet/gateway/wire"
)

// ControlPlane is a gateway as a worker sees it: the four calls that it makes for jobs.
// Its methods may be called concurrently. A call that is refused returns an [*Error]. An
// error that wraps [jobs.ErrUnavailable] is no decision. Each call may be repeated.
//
// [jobs.ErrUnavailable]: https://pkg.go.dev/github.com/batchfleet/batchfleet/jobs#ErrUnavailable
type ControlPlane interface {
	// Lease requests a job. A control plane that can wait does so for WaitSeconds. It
	// returns nil and no error when there is no job.
	Lease(ctx context.Context, request wire.LeaseRequest) (*wire.LeaseResponse, error)
	// Heartbeat extends the lease on job id. A control plane that can wait then does so
	// for WaitSeconds, until the job is canceled.
	Heartbeat(ctx context.Context, id string, request wire.HeartbeatRequest) (wire.HeartbeatResponse, error)
	// Result records the result of job id and ends its lease.
	Result(ctx context.Context, id string, request wire.ResultRequest) (wire.ReportResponse, error)
	// Failed records that an attempt of job id has failed and ends its lease.
	Failed(ctx context.Context, id string, request wire.FailedRequest) (wire.FailedResponse, error)
}

// BatchPlane is a [ControlPlane] that may do several jobs in one call.
type BatchPlane interface {
	ControlPlane
	// LeaseJobs is Lease for up to request.Max jobs. There are more when the response to an earlier
	// call with the same request id was lost.
	LeaseJobs(ctx context.Context, request wire.LeaseRequest) ([]wire.LeaseResponse, error)
	// Batches reports whether small results that come at the same time share a call now.
	Batches() bool
}

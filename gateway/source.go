package gateway

import "context"

// ControlPlane is a gateway as a worker sees it: the four calls it makes for
// jobs. Its methods may be called concurrently. What they refuse comes as an
// [*Error]; trouble on the way there wraps [jobs.ErrUnavailable] and may be
// tried again, because every one of these calls may be repeated.
//
// [jobs.ErrUnavailable]: https://pkg.go.dev/github.com/batchfleet/batchfleet/jobs#ErrUnavailable
type ControlPlane interface {
	// Lease asks for a job, and waits for one as long as the ask says, if the
	// control plane does that. Nil and no error: there is none.
	Lease(ctx context.Context, ask LeaseAsk) (*LeaseAnswer, error)
	// Heartbeat extends the lease on job id. Then it waits for somebody to cancel the
	// job as long as the ask says, if the control plane does that.
	Heartbeat(ctx context.Context, id string, ask HeartbeatAsk) (HeartbeatAnswer, error)
	// Result records the result of job id and ends its lease.
	Result(ctx context.Context, id string, ask ResultAsk) (ReportAnswer, error)
	// Failed records that a run of job id has failed and ends its lease.
	Failed(ctx context.Context, id string, ask FailedAsk) (FailedAnswer, error)
}

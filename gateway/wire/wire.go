// Package wire is the protocol between a gateway and its clients: routes, codes,
// limits and the bodies of requests and responses, as SPEC.md of package gateway has them.
package wire

import (
	"strings"
	"time"
)

// RotationGrace is how long the old token of a worker is accepted once it has a new one.
const RotationGrace = 10 * time.Minute

// The routes. {id} is a job's id, {worker} a worker's.
const (
	PathJobs         = "/calc/zpe/jobs"
	PathJob          = "/calc/zpe/jobs/{id}"
	PathJobResult    = "/calc/zpe/jobs/{id}/result"
	PathJobFiles     = "/calc/zpe/jobs/{id}/files"
	PathJobCancel    = "/calc/zpe/jobs/{id}/cancel"
	PathEnrollTokens = "/calc/zpe/compute/enroll-tokens" //nolint:gosec // a route
	PathRegister     = "/calc/zpe/compute/servers/register"
	PathServers      = "/calc/zpe/compute/servers"
	PathServer       = "/calc/zpe/compute/servers/{worker}"
	PathLease        = "/calc/zpe/compute/jobs/lease"
	PathHeartbeat    = "/calc/zpe/compute/jobs/{id}/heartbeat"
	PathResult       = "/calc/zpe/compute/jobs/{id}/result"
	PathHeartbeats   = "/calc/zpe/compute/jobs/heartbeats"
	PathResults      = "/calc/zpe/compute/jobs/results"
	PathFailed       = "/calc/zpe/compute/jobs/{id}/failed"
	PathDLQ          = "/calc/zpe/admin/dlq"
	PathDLQJob       = "/calc/zpe/admin/dlq/{id}"
	PathDLQRequeue   = "/calc/zpe/admin/dlq/{id}/requeue"
	PathLate         = "/calc/zpe/admin/jobs/{id}/late"
	PathLateAccept   = "/calc/zpe/admin/jobs/{id}/late/accept"
	PathOps          = "/calc/zpe/admin/ops"
	PathInputs       = "/calc/zpe/inputs" // this and those below: of other kinds only, see PathOf
	PathInput        = "/calc/zpe/compute/jobs/{id}/input"
	PathCheckpoint   = "/calc/zpe/compute/jobs/{id}/checkpoint"
	PathUpload       = "/calc/zpe/compute/jobs/{id}/artifacts/{name}"
	PathArtifacts    = "/calc/zpe/jobs/{id}/artifacts"
	PathArtifact     = "/calc/zpe/jobs/{id}/artifacts/{name}"
	PathMetrics      = "/metrics"
)

// PathOf returns a path of kind zpe for another kind.
func PathOf(kind, path string) string {
	return strings.Replace(path, "/calc/zpe/", "/calc/"+kind+"/", 1)
}

// The codes of failures with a treatment of their own. A job with any other code runs
// again, unless the report has retryable: false.
const (
	FailWorkerShutdown    = "WORKER_SHUTDOWN"    // its operator stops the worker: queued again, not counted
	FailWorkerUnavailable = "WORKER_UNAVAILABLE" // the worker cannot run anything now: counted
	FailWorkerRestart     = "WORKER_RESTART"     // the worker died while it ran the job
	FailResultMissing     = "RESULT_MISSING"     // the worker has lost the result
	FailResultTooLarge    = "RESULT_TOO_LARGE"   // final
	FailInvalidInput      = "INVALID_INPUT"      // final
	FailQEInput           = "QE_INPUT_ERROR"     // final
	FailQENotConverged    = "QE_NOT_CONVERGED"   // final
	FailCanceled          = "CANCELED"           // after cancel_requested; ends the job
)

// Limits of the protocol, in bytes.
const (
	MaxPayload      = 1 << 20   // of a submitted job
	MaxResultBody   = 32 << 20  // of a result with its texts; an agent and a gateway each refuse more
	MaxFailedBody   = 512 << 10 // of a failure: its texts may be escaped
	MaxSmallBody    = 256 << 10 // of any other body
	MaxRegisterBody = 64 << 10  // of a registration, which anyone may send
	MaxMeta         = 16 << 10  // of the meta of a worker that registers
	MaxErrorCode    = 100
	ChunkSize       = 8 << 20 // of an artifact, which agents send in one request
	MaxErrorMessage = 1000
	MaxTraceback    = 64 << 10
	MaxName         = 200       // of labels, names and the strings in meta
	MaxKinds        = 64        // that a lease call may name
	MaxLogLines     = 200       // of a job's log, in one heartbeat
	MaxLogLine      = 1000      // of a line of a job's log; the rest is cut off
	MaxRetryAfter   = 12 * 3600 // seconds until a job runs again, if its worker decides that
	MaxBatch        = 64        // jobs of a lease call, and results or heartbeats of one request
	MaxWait         = 30        // seconds a lease call or a heartbeat may wait
)

// HeaderLeaseID may carry the lease id of a result or a failure.
const HeaderLeaseID = "X-Lease-Id"

// HeaderSHA256 has the SHA-256 of an artifact or an input as a whole, in hex.
const HeaderSHA256 = "X-Content-SHA256"

// HeaderIdempotencyKey may come with a submitted job.
const HeaderIdempotencyKey = "Idempotency-Key"

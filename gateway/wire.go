package gateway

import "encoding/json"

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
	PathFailed       = "/calc/zpe/compute/jobs/{id}/failed"
	PathDLQ          = "/calc/zpe/admin/dlq"
	PathDLQJob       = "/calc/zpe/admin/dlq/{id}"
	PathDLQRequeue   = "/calc/zpe/admin/dlq/{id}/requeue"
	PathLate         = "/calc/zpe/admin/jobs/{id}/late"
	PathLateAccept   = "/calc/zpe/admin/jobs/{id}/late/accept"
	PathOps          = "/calc/zpe/admin/ops"
	PathMetrics      = "/metrics"
)

// Code says in one word what went wrong with a request.
type Code string

// The codes of error bodies, with the status each comes with.
const (
	InvalidPayload     Code = "INVALID_PAYLOAD"        // 400
	Unauthorized       Code = "UNAUTHORIZED"           // 401
	TokenExpired       Code = "TOKEN_EXPIRED"          // 401
	InvalidEnrollToken Code = "INVALID_ENROLL_TOKEN"   // 401
	TokenRevoked       Code = "TOKEN_REVOKED"          // 403
	WorkerMismatch     Code = "WORKER_MISMATCH"        // 403
	InsecureTransport  Code = "INSECURE_TRANSPORT"     // 403
	NotFound           Code = "NOT_FOUND"              // 404: no such route
	LateNotFound       Code = "LATE_RESULT_NOT_FOUND"  // 404
	JobNotFound        Code = "JOB_NOT_FOUND"          // 404
	WorkerNotFound     Code = "WORKER_NOT_FOUND"       // 404
	MethodNotAllowed   Code = "METHOD_NOT_ALLOWED"     // 405
	LeaseLost          Code = "LEASE_LOST"             // 409
	AlreadyFinished    Code = "ALREADY_FINISHED"       // 409
	AlreadyEnded       Code = "JOB_ENDED"              // 409: there is nothing left to cancel or to accept
	NotFinished        Code = "JOB_NOT_FINISHED"       // 409: there is no result, in this state
	AlreadyReported    Code = "ALREADY_REPORTED"       // 409: a failure with other content
	PayloadExpired     Code = "PAYLOAD_EXPIRED"        // 409: a dead letter that has nothing left to run
	RequestTimeout     Code = "REQUEST_TIMEOUT"        // 408: the body did not arrive in time
	PayloadTooLarge    Code = "PAYLOAD_TOO_LARGE"      // 413
	UnsupportedMedia   Code = "UNSUPPORTED_MEDIA_TYPE" // 415
	IdempotencyReused  Code = "IDEMPOTENCY_KEY_REUSED" // 422
	TooManyLeases      Code = "TOO_MANY_LEASES"        // 429: of one worker
	Internal           Code = "INTERNAL"               // 500
	Unavailable        Code = "UNAVAILABLE"            // 503: Redis is away
	SubmissionDisabled Code = "SUBMISSION_DISABLED"    // 503
	QueueFull          Code = "QUEUE_FULL"             // 503
	AdminDisabled      Code = "ADMIN_DISABLED"         // 503: the gateway has no admin token
)

// ErrorBody is the body of every response with a status of 400 or more.
type ErrorBody struct {
	Error ErrorInfo `json:"error"`
}

// ErrorInfo is what an [ErrorBody] says.
type ErrorInfo struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"` // never null
}

// The codes of failures that the control plane treats in a way of their own.
// Any other code is a failure that is run again, unless the report says that it
// is not retryable.
const (
	FailWorkerShutdown    = "WORKER_SHUTDOWN"    // its operator stops the worker: queued again, not counted
	FailWorkerUnavailable = "WORKER_UNAVAILABLE" // the worker cannot run anything now: counted
	FailWorkerRestart     = "WORKER_RESTART"     // the worker died while it ran the job
	FailResultTooLarge    = "RESULT_TOO_LARGE"   // final
	FailInvalidInput      = "INVALID_INPUT"      // final
	FailQEInput           = "QE_INPUT_ERROR"     // final
	FailQENotConverged    = "QE_NOT_CONVERGED"   // final
	FailCanceled          = "CANCELED"           // after cancel_requested; ends the job
)

// Limits of the protocol, in bytes.
const (
	MaxPayload      = 1 << 20   // of a submitted job
	MaxResultBody   = 32 << 20  // of a result with its texts
	MaxFailedBody   = 512 << 10 // of a failure: its texts may be escaped
	MaxSmallBody    = 256 << 10 // of any other body
	MaxRegisterBody = 64 << 10  // of a registration, which strangers may send
	MaxMeta         = 16 << 10  // of the meta of a worker that registers
	MaxErrorCode    = 100
	MaxErrorMessage = 1000
	MaxTraceback    = 64 << 10
	MaxName         = 200 // of labels, names and the strings in meta
	MaxWait         = 30  // seconds a lease call or a heartbeat may wait
)

// SubmitResponse answers a submitted job.
type SubmitResponse struct {
	JobID string `json:"job_id"`
}

// JobResponse says where a job stands.
type JobResponse struct {
	JobID      string    `json:"job_id"`
	Status     string    `json:"status"` // queued, started, finished, failed
	Detail     string    `json:"detail"`
	UpdatedAt  string    `json:"updated_at"` // RFC 3339, UTC
	CreatedAt  string    `json:"created_at,omitempty"`
	RetryCount int       `json:"retry_count"`
	WorkerID   string    `json:"worker_id,omitempty"`   // who runs or ran it
	WorkerName string    `json:"worker_name,omitempty"` // what that is called
	ErrorCode  string    `json:"error_code,omitempty"`  // of the last run that has failed
	RunAfter   string    `json:"run_after,omitempty"`   // RFC 3339, UTC: of a job that is delayed
	Progress   *Progress `json:"progress,omitempty"`
	// CancelRequested says that a job that runs is to be stopped.
	CancelRequested bool   `json:"cancel_requested,omitempty"`
	Traceback       string `json:"traceback,omitempty"` // of one dead letter only
}

// Progress counts steps.
type Progress struct {
	Done  int `json:"done"`
	Total int `json:"total"` // 0 while unknown
}

// EnrollRequest asks for a token that lets one worker register. Needs the admin token.
type EnrollRequest struct {
	TTLSeconds *int64 `json:"ttl_seconds"` // 3600 when absent
	Label      string `json:"label"`
}

// EnrollResponse carries an enroll token, shown this once.
type EnrollResponse struct {
	Token      string `json:"token"`
	ExpiresAt  string `json:"expires_at"` // RFC 3339, UTC
	TTLSeconds int64  `json:"ttl_seconds"`
	Label      string `json:"label"`
}

// RegisterRequest registers a worker with an enroll token. With the Authorization
// of a worker the worker gets a new token; then the enroll token may be absent.
type RegisterRequest struct {
	Token     string          `json:"token"`
	Name      string          `json:"name"`
	QueueName string          `json:"queue_name"`
	Meta      json.RawMessage `json:"meta"` // an object, kept for people
}

// RegisterResponse carries a worker token, shown this once.
type RegisterResponse struct {
	ServerID        string `json:"server_id"`
	WorkerID        string `json:"worker_id"` // the same as ServerID
	RegisteredAt    string `json:"registered_at"`
	Name            string `json:"name"`
	WorkerToken     string `json:"worker_token"`
	TokenExpiresAt  string `json:"token_expires_at"`
	TokenTTLSeconds int64  `json:"token_ttl_seconds"`
}

// ServersResponse lists workers, those first that got a token last.
type ServersResponse struct {
	Total   int          `json:"total"`
	Servers []ServerInfo `json:"servers"`
}

// ServerInfo is a worker as the operators see it.
type ServerInfo struct {
	ServerID     string `json:"server_id"`
	Name         string `json:"name"`
	RegisteredAt string `json:"registered_at"` // RFC 3339, UTC: when it got its newest token
	Tokens       int    `json:"tokens"`        // good ones
	Leases       int    `json:"leases"`
}

// RevokeResponse says how many tokens of a worker were revoked.
type RevokeResponse struct {
	RevokedCount int `json:"revoked_count"`
}

// The features a worker may name in a [LeaseRequest].
const (
	FeatureRenew  = "renew"  // it sends heartbeats, so its lease may be short
	FeatureCancel = "cancel" // it heeds cancel_requested
)

// LeaseRequest asks for a job. An empty body is legal.
type LeaseRequest struct {
	Features []string `json:"features,omitempty"`
	// WaitSeconds is how long to wait for a job, at most MaxWait.
	WaitSeconds float64 `json:"wait_seconds,omitempty"`
	// RequestID makes a repeated call return the lease that the first one got.
	RequestID string `json:"request_id,omitempty"`
	WorkerID  string `json:"worker_id,omitempty"` // must be the token's
}

// LeaseResponse hands out a job.
type LeaseResponse struct {
	JobID           string          `json:"job_id"`
	Payload         json.RawMessage `json:"payload"`
	LeaseID         string          `json:"lease_id"`
	LeaseTTLSeconds float64         `json:"lease_ttl_seconds"`
	RetryCount      int             `json:"retry_count"` // earlier runs that failed or expired
}

// HeartbeatRequest extends a lease.
type HeartbeatRequest struct {
	LeaseID  string    `json:"lease_id"`
	Progress *Progress `json:"progress,omitempty"`
	Message  string    `json:"message,omitempty"`
	// WaitSeconds is how long to hold the response unless the job is to be canceled, at
	// most MaxWait. The lease is extended before.
	WaitSeconds float64 `json:"wait_seconds,omitempty"`
	WorkerID    string  `json:"worker_id,omitempty"`
}

// HeartbeatResponse says that the lease holds for LeaseTTLSeconds from now.
type HeartbeatResponse struct {
	LeaseID         string  `json:"lease_id"`
	LeaseTTLSeconds float64 `json:"lease_ttl_seconds"`
	ExpiresAt       float64 `json:"expires_at"` // unix seconds by the gateway's clock
	CancelRequested bool    `json:"cancel_requested"`
	// Waited says that the response was held, or came because of CancelRequested. It
	// is absent from a control plane that does not know WaitSeconds, and from one
	// that holds as many responses as it can.
	Waited bool `json:"waited,omitempty"`
}

// ResultRequest reports the result of a job.
type ResultRequest struct {
	LeaseID     string          `json:"lease_id"`               // or the header X-Lease-Id
	Result      json.RawMessage `json:"result" required:"true"` // an object
	SummaryText *string         `json:"summary_text" required:"true"`
	FreqsCSV    *string         `json:"freqs_csv" required:"true"`
	Meta        json.RawMessage `json:"meta,omitempty"` // a Meta
	WorkerID    string          `json:"worker_id,omitempty"`
}

// Meta is what a worker says of its run. It is kept and never trusted.
type Meta struct {
	WorkerHostname         string      `json:"worker_hostname,omitempty"`
	ComputationTimeSeconds json.Number `json:"computation_time_seconds,omitempty"`
	QEVersion              string      `json:"qe_version,omitempty"`
	Timestamp              string      `json:"timestamp,omitempty"` // RFC 3339
}

// ReportResponse answers a result.
type ReportResponse struct {
	OK         bool `json:"ok"`
	Idempotent bool `json:"idempotent"` // it was on record already
}

// FailedRequest reports that a job has failed.
type FailedRequest struct {
	LeaseID      string `json:"lease_id"` // or the header X-Lease-Id
	ErrorCode    string `json:"error_code" required:"true"`
	ErrorMessage string `json:"error_message" required:"true"`
	Traceback    string `json:"traceback,omitempty"`
	Retryable    *bool  `json:"retryable,omitempty"`
	WorkerID     string `json:"worker_id,omitempty"`
}

// FailedResponse says what has become of the job.
type FailedResponse struct {
	OK         bool `json:"ok"`
	Requeued   bool `json:"requeued"`
	RetryCount int  `json:"retry_count"`
}

// HeaderLeaseID may carry the lease id of a result or a failure.
const HeaderLeaseID = "X-Lease-Id"

// HeaderIdempotencyKey may come with a submitted job.
const HeaderIdempotencyKey = "Idempotency-Key"

// DLQResponse lists dead letters, newest first.
type DLQResponse struct {
	Total int           `json:"total"`
	Jobs  []JobResponse `json:"jobs"`
}

// OpsResponse says what the operators have switched on; as a body of PUT, absent
// fields stay as they are.
type OpsResponse struct {
	SubmissionEnabled *bool `json:"submission_enabled,omitempty"`
	DequeueEnabled    *bool `json:"dequeue_enabled,omitempty"`
}

// LateResponse is a result that came after its lease was taken back, as the
// operators see it.
type LateResponse struct {
	WorkerID    string          `json:"worker_id"`
	LeaseID     string          `json:"lease_id"`
	ReceivedAt  string          `json:"received_at"` // RFC 3339, UTC
	Result      json.RawMessage `json:"result"`
	SummaryText string          `json:"summary_text"`
	FreqsCSV    string          `json:"freqs_csv"`
	Meta        json.RawMessage `json:"meta"`
}

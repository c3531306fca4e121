package wire

import "encoding/json"

// SubmitRequest submits a job of a kind beside zpe.
type SubmitRequest struct {
	Params json.RawMessage `json:"params"` // an object; {} when absent
	// Input is a name that an upload to PathInputs was answered with; empty for none.
	Input string `json:"input,omitempty"`
	// Inputs are the same where there are several, at most MaxInputs; then Input is empty.
	Inputs []string `json:"inputs,omitempty"`
}

// SubmitResponse answers a submitted job.
type SubmitResponse struct {
	JobID string `json:"job_id"`
}

// JobResponse is the state of a job.
type JobResponse struct {
	JobID      string    `json:"job_id"`
	Kind       string    `json:"kind,omitempty"` // absent of zpe
	Status     string    `json:"status"`         // queued, started, finished, failed
	Detail     string    `json:"detail"`
	UpdatedAt  string    `json:"updated_at"` // RFC 3339, UTC
	CreatedAt  string    `json:"created_at,omitempty"`
	RetryCount int       `json:"retry_count"`
	WorkerID   string    `json:"worker_id,omitempty"`   // who runs or ran it
	WorkerName string    `json:"worker_name,omitempty"` // what that is called
	ErrorCode  string    `json:"error_code,omitempty"`  // of the last run that has failed
	RunAfter   string    `json:"run_after,omitempty"`   // RFC 3339, UTC: of a job that is delayed
	Progress   *Progress `json:"progress,omitempty"`
	// CancelRequested is whether a running job is to be stopped.
	CancelRequested bool `json:"cancel_requested,omitempty"`
	// Of one dead letter only: what its last run left, and what the job is asked to do, unless that has expired.
	Traceback string          `json:"traceback,omitempty"`
	Payload   json.RawMessage `json:"payload,omitempty"`
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

// ServersResponse lists workers, the newest tokens first.
type ServersResponse struct {
	Total   int          `json:"total"`
	Servers []ServerInfo `json:"servers"`
}

// ServerInfo is a worker as the operators see it.
type ServerInfo struct {
	ServerID     string `json:"server_id"`
	Name         string `json:"name"`
	RegisteredAt string `json:"registered_at"` // RFC 3339, UTC: when it got its newest token
	Tokens       int    `json:"tokens"`        // valid ones
	Leases       int    `json:"leases"`
}

// RevokeResponse has how many tokens of a worker were revoked.
type RevokeResponse struct {
	RevokedCount int `json:"revoked_count"`
}

// The features a worker may name in a [LeaseRequest].
const (
	FeatureRenew  = "renew"  // it sends heartbeats, so its lease may be short
	FeatureCancel = "cancel" // it obeys cancel_requested
	FeatureInputs = "inputs" // it runs jobs with several inputs; others get none
)

// LeaseRequest asks for a job. An empty body is legal.
type LeaseRequest struct {
	Features []string `json:"features,omitempty"`
	// WaitSeconds is how long to wait for a job, at most MaxWait.
	WaitSeconds float64 `json:"wait_seconds,omitempty"`
	// RequestID makes a repeated call return the lease that the first one got.
	RequestID string `json:"request_id,omitempty"`
	WorkerID  string `json:"worker_id,omitempty"` // must be the token's
	// Kinds are those that the worker runs, at most MaxKinds; that of the path when absent.
	Kinds []string `json:"kinds,omitempty"`
	// Max is how many jobs there may be, 1 to MaxBatch: the response is a LeasesResponse then. When
	// absent it is one job and a LeaseResponse, as it is from a gateway that does not know Max.
	Max  *int   `json:"max,omitempty"`
	Kind string `json:"-"` // a part of the path; empty for zpe
}

// LeasesResponse hands out jobs. One that repeats an earlier response may have more than were asked for now.
type LeasesResponse struct {
	Jobs []LeaseResponse `json:"jobs"`
}

// LeaseResponse hands out a job.
type LeaseResponse struct {
	JobID           string          `json:"job_id"`
	Payload         json.RawMessage `json:"payload"`
	LeaseID         string          `json:"lease_id"`
	LeaseTTLSeconds float64         `json:"lease_ttl_seconds"`
	RetryCount      int             `json:"retry_count"` // earlier runs that failed or expired
	// Kind is absent of zpe. Reports on the job go to the path of its kind.
	Kind string `json:"kind,omitempty"`
	// Failures are how many of the earlier runs have failed by themselves; not of zpe.
	Failures int `json:"failures,omitempty"`
}

// HeartbeatRequest extends a lease.
type HeartbeatRequest struct {
	LeaseID  string    `json:"lease_id"`
	Progress *Progress `json:"progress,omitempty"`
	Message  string    `json:"message,omitempty"`
	// WaitSeconds is how long to hold the response unless the job is to be canceled, at
	// most MaxWait. The lease is extended before.
	WaitSeconds float64 `json:"wait_seconds,omitempty"`
	// Log has lines for the job's log; not of zpe.
	Log      *Log   `json:"log,omitempty"`
	WorkerID string `json:"worker_id,omitempty"`
	Kind     string `json:"-"` // of the job, a part of the path; empty for zpe
}

// Log are lines that a job has written. The number of those before them keeps a line of a
// repeated call from being there twice.
type Log struct {
	Before int      `json:"before"` // how many lines came before them under this lease
	Lines  []string `json:"lines"`  // at most MaxLogLines, of MaxLogLine bytes
}

// HeartbeatResponse extends the lease to LeaseTTLSeconds from now.
type HeartbeatResponse struct {
	LeaseID         string  `json:"lease_id"`
	LeaseTTLSeconds float64 `json:"lease_ttl_seconds"`
	ExpiresAt       float64 `json:"expires_at"` // unix seconds by the gateway's clock
	CancelRequested bool    `json:"cancel_requested"`
	// Waited is whether the response was held, or came because of CancelRequested. It
	// is absent from a control plane that does not know WaitSeconds, and from one
	// that holds as many responses as it can.
	Waited bool `json:"waited,omitempty"`
}

// HeartbeatsRequest extends several leases, 1 to MaxBatch.
type HeartbeatsRequest struct {
	Heartbeats []JobHeartbeat `json:"heartbeats" required:"true"`
	WorkerID   string         `json:"worker_id,omitempty"`
	Kind       string         `json:"-"` // of the jobs, a part of the path; empty for zpe
}

// JobHeartbeat extends the lease on one job. It does not wait.
type JobHeartbeat struct {
	JobID string `json:"job_id"`
	HeartbeatRequest
}

// HeartbeatsResponse answers each heartbeat, in the order in which they came.
type HeartbeatsResponse struct {
	Heartbeats []HeartbeatVerdict `json:"heartbeats"`
}

// HeartbeatVerdict is the answer to one of several heartbeats.
type HeartbeatVerdict struct {
	JobID              string `json:"job_id"`
	*HeartbeatResponse        // nil when it was refused
	*Refusal
}

// Refusal is what the response to one entry of a batch would have been alone, with a status of 400 or more.
type Refusal struct {
	Status int       `json:"status"`
	Error  ErrorInfo `json:"error"`
}

// ResultsRequest reports several results, 1 to MaxBatch.
type ResultsRequest struct {
	Results  []JobResult `json:"results" required:"true"`
	WorkerID string      `json:"worker_id,omitempty"`
	Kind     string      `json:"-"` // of the jobs, a part of the path; empty for zpe
}

// JobResult reports the result of one job.
type JobResult struct {
	JobID string `json:"job_id"`
	// The fields of a ResultRequest; what is missing is said of this result alone.
	LeaseID     string          `json:"lease_id"`
	Result      json.RawMessage `json:"result"`
	SummaryText *string         `json:"summary_text,omitempty"`
	FreqsCSV    *string         `json:"freqs_csv,omitempty"`
	Artifacts   []Artifact      `json:"artifacts,omitempty"`
	Log         *Log            `json:"log,omitempty"`
	Meta        json.RawMessage `json:"meta,omitempty"`
}

// ResultsResponse answers each result, in the order in which they came.
type ResultsResponse struct {
	Results []ResultVerdict `json:"results"`
}

// ResultVerdict is the answer to one of several results.
type ResultVerdict struct {
	JobID           string `json:"job_id"`
	*ReportResponse        // nil when it was refused
	*Refusal
}

// ResultRequest reports the result of a job.
type ResultRequest struct {
	LeaseID     string          `json:"lease_id"`               // or the header X-Lease-Id
	Result      json.RawMessage `json:"result" required:"true"` // an object
	SummaryText *string         `json:"summary_text"`           // required of zpe; others have none
	FreqsCSV    *string         `json:"freqs_csv"`              // likewise
	// Artifacts must have been uploaded under the same lease; not of zpe.
	Artifacts []Artifact `json:"artifacts,omitempty"`
	// Log has the last lines for the job's log; not of zpe. A gateway that knows no batches ignores them.
	Log      *Log            `json:"log,omitempty"`
	Meta     json.RawMessage `json:"meta,omitempty"` // a Meta
	WorkerID string          `json:"worker_id,omitempty"`
	Kind     string          `json:"-"` // of the job, a part of the path; empty for zpe
}

// OfJob returns the result as one of several.
func (r *ResultRequest) OfJob(id string) JobResult {
	return JobResult{
		JobID: id, LeaseID: r.LeaseID, Result: r.Result, SummaryText: r.SummaryText, FreqsCSV: r.FreqsCSV, Artifacts: r.Artifacts, Log: r.Log, Meta: r.Meta,
	}
}

// Alone returns the request that reports this result by itself. kind is empty for zpe.
func (r *JobResult) Alone(kind string) ResultRequest {
	return ResultRequest{
		LeaseID: r.LeaseID, Result: r.Result, SummaryText: r.SummaryText, FreqsCSV: r.FreqsCSV, Artifacts: r.Artifacts, Log: r.Log, Meta: r.Meta, Kind: kind,
	}
}

// Artifact is a file that a job has made.
type Artifact struct {
	Name   string `json:"name"` // ^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`         // in hex
	Type   string `json:"type,omitempty"` // its media type
}

// ArtifactsResponse lists the artifacts of a finished job by name.
type ArtifactsResponse struct {
	Artifacts []Artifact `json:"artifacts"`
}

// UploadResponse says how much of an artifact has arrived.
type UploadResponse struct {
	Offset   int64 `json:"offset"`
	Complete bool  `json:"complete"`
}

// InputResponse names an upload, for SubmitRequest.
type InputResponse struct {
	Input  string `json:"input"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Meta is what a worker reports about its run. It is kept and never trusted.
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
	// RetryAfterSeconds asks for the job to be run again after so long, even if its kind has no
	// retries; at most 10 times. Not of zpe.
	RetryAfterSeconds *float64 `json:"retry_after_seconds,omitempty"`
	WorkerID          string   `json:"worker_id,omitempty"`
	Kind              string   `json:"-"` // of the job, a part of the path; empty for zpe
}

// FailedResponse tells whether the job runs again.
type FailedResponse struct {
	OK         bool `json:"ok"`
	Requeued   bool `json:"requeued"`
	RetryCount int  `json:"retry_count"`
}

// DLQResponse lists dead letters, newest first.
type DLQResponse struct {
	Total int           `json:"total"`
	Jobs  []JobResponse `json:"jobs"`
}

// OpsResponse is what the operators have switched on; as a body of PUT, absent
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

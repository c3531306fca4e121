package wire

import (
	"encoding/json"
	"time"
)

// JobRequest is the payload of SubmitJob; AssignJob has the same payload. The Options are ours: leaders of other implementations pass them on,
// their workers ignore them.
type JobRequest struct {
	JobID    GUID        `json:"JobId"`
	ClientID string      `json:"ClientId"`
	ExecName string      `json:"ExecName"`
	Args     []string    `json:"Args"`
	Files    []InputFile `json:"Files"`
	// Params are those of a kind, an object. Leaders do not look at them.
	Params json.RawMessage `json:"Params,omitempty"`
	// Attempt is which one this is, if it is not the first, and Checkpoint what one before has left, a tar archive. They are set by the
	// leader: see [AssignPayload].
	Attempt    int   `json:"Attempt,omitempty"`
	Checkpoint *Blob `json:"Checkpoint,omitempty"`
	Options
}

// HasParams reports whether there are params.
func (r *JobRequest) HasParams() bool { return len(r.Params) > 0 && string(r.Params) != "null" }

// Options say how a job is run. They are members of the JobRequest.
type Options struct {
	TimeoutMs    int64             `json:"TimeoutMs,omitempty"`    // of one attempt; 0 for the worker's own limit
	MaxAttempts  int               `json:"MaxAttempts,omitempty"`  // 1 to 100; 0 for the leader's default
	Priority     int               `json:"Priority,omitempty"`     // -100 to 100; higher ones first, among the jobs of one client and exec
	NotAfter     *time.Time        `json:"NotAfter,omitempty"`     // the job is not started later
	RetryOn      []string          `json:"RetryOn,omitempty"`      // exit, timeout: failures after which it is run again
	OnDisconnect string            `json:"OnDisconnect,omitempty"` // cancel: the job ends with the connection of its client
	Env          map[string]string `json:"Env,omitempty"`
	Array        string            `json:"Array,omitempty"` // 0-99: one job for each index
	Index        *int64            `json:"Index,omitempty"` // of a job of an array, set by the leader
	ArrayID      *GUID             `json:"ArrayId,omitempty"`
	Trace        string            `json:"Trace,omitempty"` // W3C traceparent
}

// InputFile is an input of a job: its content, or the name of the content in the worker's cache, or a blob. Exactly one is set.
type InputFile struct {
	Name    string  `json:"Name"`
	CacheID *string `json:"CacheId"`
	Content []byte  `json:"Content"`
	Blob    *Blob   `json:"Blob,omitempty"`
}

// The statuses of a result.
const (
	OK        = "OK"
	Failed    = "FAILED"
	Duplicate = "DUPLICATE" // from workers of other implementations, for a job that they have run before
)

// The reasons of a failed result.
const (
	ReasonExit        = "exit" // the program has ended with another code than 0, or by a signal
	ReasonTimeout     = "timeout"
	ReasonCanceled    = "canceled"
	ReasonLost        = "lost"         // its worker was lost
	ReasonDeadLetter  = "dead_letter"  // all attempts are used up
	ReasonRejected    = "rejected"     // the request cannot be run: a bad name, an exec that is not there
	ReasonOOM         = "oom"          // the memory limit
	ReasonOutputLimit = "output_limit" // it wrote too much
	ReasonNoSpace     = "no_space"     // the disk of the worker is full
	ReasonExpired     = "expired"      // NotAfter has passed
	ReasonError       = "error"        // it could not be run for another reason
)

// JobResult is the payload of AckJob; Result has the same payload. The fields from ExitCode on are ours.
type JobResult struct {
	JobID         GUID   `json:"JobId"`
	ClientID      string `json:"ClientId"`
	ExecName      string `json:"ExecName"`
	Status        string `json:"Status"`
	Stdout        string `json:"Stdout"`
	Stderr        string `json:"Stderr"`
	OutputArchive []byte `json:"OutputArchive"` // a ZIP file, or null

	ExitCode        *int   `json:"ExitCode,omitempty"`
	Signal          string `json:"Signal,omitempty"`
	Reason          string `json:"Reason,omitempty"` // of a failure
	Message         string `json:"Message,omitempty"`
	Attempt         int    `json:"Attempt,omitempty"`
	DurationMs      int64  `json:"DurationMs,omitempty"`
	StdoutTruncated bool   `json:"StdoutTruncated,omitempty"`
	StderrTruncated bool   `json:"StderrTruncated,omitempty"`
	Artifacts       []Blob `json:"Artifacts,omitempty"`
	Index           *int64 `json:"Index,omitempty"` // of a job of an array
	ArrayID         *GUID  `json:"ArrayId,omitempty"`
	Worker          string `json:"Worker,omitempty"` // its host, for people
}

// Blob is content that is not in the frame.
type Blob struct {
	Name   string `json:"Name"`
	SHA256 string `json:"Sha256"` // 64 hexadecimal digits, lower case
	Size   int64  `json:"Size"`
	Ref    string `json:"Ref,omitempty"` // where it is, if not with the leader
}

// ClientConfig is the payload of HelloClient. The fields from Features on are ours.
type ClientConfig struct {
	ClientID           string   `json:"ClientId"`
	DesiredParallelism int      `json:"DesiredParallelism"`
	Features           []string `json:"Features,omitempty"`
	Token              string   `json:"Token,omitempty"`
}

// Capability is the payload of HelloWorker. Workers of other implementations leave it empty.
type Capability struct {
	Proto       int       `json:"Proto"` // 2
	Features    []string  `json:"Features"`
	MaxParallel int       `json:"MaxParallel"`
	Host        string    `json:"Host"`
	PID         int       `json:"Pid,omitempty"`
	Version     string    `json:"Version,omitempty"`
	Running     []Running `json:"Running"` // attempts in hand from an earlier connection
	Token       string    `json:"Token,omitempty"`
}

// Running is an attempt that a worker has in hand.
type Running struct {
	JobID     GUID `json:"JobId"`
	AttemptID GUID `json:"AttemptId"`
}

// Features that a peer may list.
const (
	FeatureAccept    = "accept"    // Accept and Renew
	FeatureCancel    = "cancel"    // Cancel
	FeaturePing      = "ping"      // Ping and Pong
	FeatureError     = "error"     // Error
	FeatureSubmitAck = "submitack" // SubmitAck
	FeatureResultAck = "resultack" // ResultAck
	FeatureQuery     = "query"     // Query and Status
	FeatureOwn       = "own"       // of a client: this connection gets only results of jobs that were submitted over it
	FeatureDrain     = "drain"     // Drain
	FeatureArray     = "array"     // jobs of arrays
	FeatureAttempt   = "attempt"   // of a worker: the request says which attempt it is for
	FeatureBlob      = "blob"      // BlobBegin, BlobChunk and BlobEnd
	FeatureReport    = "report"    // Report
)

// WelcomeInfo is the payload of Welcome.
type WelcomeInfo struct {
	Proto    int      `json:"Proto"` // 2
	LeaderID GUID     `json:"LeaderId"`
	Features []string `json:"Features"`
	Durable  bool     `json:"Durable"` // what the leader acknowledges is on its disk
	LeaseMs  int64    `json:"LeaseMs"` // how long an attempt counts as running after a Renew
}

// ErrorInfo is the payload of Error. If it is about a job, the frame's CorrId is the JobId.
type ErrorInfo struct {
	Code    string `json:"Code"`
	Message string `json:"Message"`
}

// The codes of errors.
const (
	CodeInvalid   = "INVALID"   // the request is wrong; do not send it again
	CodeConflict  = "CONFLICT"  // another job has this id
	CodeForbidden = "FORBIDDEN" // the peer may not do that
	CodeDraining  = "DRAINING"  // the leader is stopping; try another, or later
	CodeNoSpace   = "NO_SPACE"  // the leader's disk is full; try another, or later
	CodeBusy      = "BUSY"      // a limit is reached; try another, or later
	CodeNotFound  = "NOT_FOUND" // there is no such job
	CodeProtocol  = "PROTOCOL"  // the connection is closed
)

// RenewInfo is the payload of Renew.
type RenewInfo struct {
	Running []Running `json:"Running"`
	Seen    int64     `json:"Seen"`  // how many jobs were assigned over this connection
	Limit   *int      `json:"Limit"` // how many may be assigned over it in all, with the leader's present credit; nil to leave the credit as it is
	CPU     float64   `json:"Cpu"`   // 0 to 1
}

// ReportInfo is the payload of Report. A leader keeps the newest message, checkpoint and lines of a running job in memory.
type ReportInfo struct {
	Message string   `json:"Message,omitempty"` // empty if it has not changed
	Lines   []string `json:"Lines,omitempty"`   // that the program has written since the last report; at most MaxReportLines
	// Checkpoint is what the next attempt is to go on from. The leader has the blob.
	Checkpoint *Blob `json:"Checkpoint,omitempty"`
}

// Limits of a report.
const (
	MaxReportLines   = 500
	MaxReportMessage = 1024 // bytes
)

// CancelInfo is the payload of Cancel from a leader.
type CancelInfo struct {
	Reason string `json:"Reason"` // canceled, lost
}

// StatusInfo is the payload of Status.
type StatusInfo struct {
	JobID    GUID   `json:"JobId"`
	State    string `json:"State"` // queued, running, succeeded, failed, canceled; unknown if the leader does not know the job
	Attempt  int    `json:"Attempt"`
	Worker   string `json:"Worker,omitempty"`
	Position int    `json:"Position,omitempty"`
	Why      string `json:"Why,omitempty"` // why it is in that state, for people
}

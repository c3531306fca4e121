package wire

// Code is in one word what went wrong with a request.
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
	Forbidden          Code = "FORBIDDEN"              // 403: without a client token, from elsewhere than a program on the same machine
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
	OffsetMismatch     Code = "OFFSET_MISMATCH"        // 409: of an artifact, another part is wanted
	Incomplete         Code = "ARTIFACT_INCOMPLETE"    // 409: an artifact of the result has not arrived whole
	DigestMismatch     Code = "DIGEST_MISMATCH"        // 422: what has arrived is something else
	ArtifactNotFound   Code = "ARTIFACT_NOT_FOUND"     // 404
	InputNotFound      Code = "INPUT_NOT_FOUND"        // 404: the job has none
	CheckpointNotFound Code = "CHECKPOINT_NOT_FOUND"   // 404: none of the job is kept
	RangeNotSatisfied  Code = "RANGE_NOT_SATISFIABLE"  // 416
	StorageDisabled    Code = "STORAGE_DISABLED"       // 503: the gateway has no storage for inputs and artifacts
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

// ErrorInfo is the content of an [ErrorBody].
type ErrorInfo struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"` // never null
}

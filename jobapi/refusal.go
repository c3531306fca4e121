package jobapi

import (
	"fmt"
	"time"
)

// Refusal is the error of a request as the caller is told.
type Refusal struct { //nolint:errname // it is an answer first
	Status     int    // of HTTP
	Code       string // a word in capitals
	Message    string // for people
	Details    map[string]any
	RetryAfter time.Duration // 0 for the usual 5 s, where one is told when to come again
}

// Error returns the code and the message.
func (e *Refusal) Error() string { return e.Code + ": " + e.Message }

// The codes of refusals.
const (
	CodeInvalidArgument  = "INVALID_ARGUMENT"       // 400; details.field
	CodeUnauthorized     = "UNAUTHORIZED"           // 401
	CodeForbidden        = "FORBIDDEN"              // 403: the token's scope does not reach so far
	CodeReadOnly         = "READ_ONLY"              // 403: this server changes nothing
	CodeNotFound         = "NOT_FOUND"              // 404
	CodeMethodNotAllowed = "METHOD_NOT_ALLOWED"     // 405
	CodeRequestTimeout   = "REQUEST_TIMEOUT"        // 408
	CodeConflict         = "CONFLICT"               // 409
	CodePrecondition     = "FAILED_PRECONDITION"    // 409: this server is not set up for it
	CodeTooLarge         = "PAYLOAD_TOO_LARGE"      // 413
	CodeUnsupportedMedia = "UNSUPPORTED_MEDIA_TYPE" // 415
	CodeRange            = "RANGE_NOT_SATISFIABLE"  // 416: an artifact is shorter
	CodeRateLimited      = "RATE_LIMITED"           // 429
	CodeUnavailable      = "UNAVAILABLE"            // 503
)

// FieldError is a field or a parameter of a request that cannot be used. Problem is
// shown to the caller, and quotes at most the beginning of a value.
type FieldError struct {
	Field, Problem string
}

// Error names the field and what is wrong with it.
func (e *FieldError) Error() string { return fmt.Sprintf("Invalid %s: %s", e.Field, e.Problem) }

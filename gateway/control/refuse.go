package control

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// retryAfter is when to come again after trouble with Redis.
const retryAfter = 5 * time.Second

var (
	errAdminDisabled = &gateway.Error{Status: 503, Code: wire.AdminDisabled, Message: "The operators' routes are disabled: the gateway has no admin token"}
	errAdminToken    = &gateway.Error{Status: 401, Code: wire.Unauthorized, Message: "Not the admin token"}
	errInternal      = &gateway.Error{Status: 500, Code: wire.Internal, Message: "Internal error"}
	errClientToken   = &gateway.Error{Status: 401, Code: wire.Unauthorized, Message: "Not the client token"}
)

// refusals says what a caller is told about the queue's errors.
var refusals = []struct {
	err     error
	status  int
	code    wire.Code
	message string // the error's own text when empty
}{
	{jobs.ErrUnavailable, 503, wire.Unavailable, "The gateway cannot reach its database; try again later"},
	{queue.ErrJobTimeout, 409, wire.LeaseLost, "The job has had its time: its lease is not extended any more"},
	{jobs.ErrLeaseLost, 409, wire.LeaseLost, "The lease is not yours, or not any more"},
	{queue.ErrTokenUnknown, 401, wire.Unauthorized, "Unknown worker token"},
	{queue.ErrTokenExpired, 401, wire.TokenExpired, "The worker token has expired; register again"},
	{queue.ErrTokenRevoked, 403, wire.TokenRevoked, "The worker token was revoked"},
	{queue.ErrOtherWorker, 403, wire.WorkerMismatch, "The token belongs to another worker than worker_id"},
	{queue.ErrEnrollToken, 401, wire.InvalidEnrollToken, "The enroll token is unknown, used up or expired"},
	{queue.ErrIncomplete, 409, wire.Incomplete, ""},
	{queue.ErrManyArtifacts, 413, wire.PayloadTooLarge, "The job has as many artifacts as one may"},
	{queue.ErrNotDead, 404, wire.JobNotFound, "The job is no dead letter"},
	{queue.ErrNoJob, 404, wire.JobNotFound, "No such job"},
	{queue.ErrNoWorker, 404, wire.WorkerNotFound, "No such worker"},
	{queue.ErrFinished, 409, wire.AlreadyFinished, "The job has finished with another result"},
	{queue.ErrReported, 409, wire.AlreadyReported, "This failure was reported with other content"},
	{queue.ErrKeyReused, 422, wire.IdempotencyReused, "The Idempotency-Key was used for another payload"},
	{queue.ErrSubmissionOff, 503, wire.SubmissionDisabled, "Submission is disabled"},
	{queue.ErrManyLeases, 429, wire.TooManyLeases, "The worker holds as many leases as one may (MAX_LEASES_PER_WORKER); come again when a job has ended"},
	{queue.ErrFull, 503, wire.QueueFull, "The queue is full; try again later"},
	{queue.ErrPayloadMissing, 409, wire.PayloadExpired, "The payload has expired; submit the job again"},
	{queue.ErrNotEnded, 409, wire.NotFinished, ""},
	{queue.ErrAlreadyFinished, 409, wire.AlreadyEnded, "The job has a result already"},
}

// refusal returns what a caller is told of err, or nil if it is none of its
// business.
func refusal(err error) *gateway.Error {
	if e, ok := errors.AsType[*gateway.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[httpd.OriginError](err); ok {
		return &gateway.Error{Status: 403, Code: wire.Forbidden, Message: forbidden(e)}
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			e := &gateway.Error{Status: r.status, Code: r.code, Message: r.message}
			if e.Message == "" {
				e.Message = httpd.Sentence(err)
			}
			if r.status == http.StatusServiceUnavailable || r.status == http.StatusTooManyRequests {
				e.RetryAfter = retryAfter
			}
			return e
		}
	}
	return nil
}

// forbidden returns the message for a request without a token that may not be from
// where it has to be from.
func forbidden(e httpd.OriginError) string {
	if e == "cross_site" { // also with OpenSubmission
		return "Without a client token (--client-token-file) no page of another site may use this route, and this request " + strings.TrimPrefix(e.Error(), "it ")
	}
	return "Without a client token (--client-token-file) this route is open only to programs on the gateway's own machine, and of this request one cannot say so: " + e.Error()
}

// codes are those of the errors that package httpd finds.
var codes = map[int]wire.Code{
	400: wire.InvalidPayload, 401: wire.Unauthorized, 403: wire.InsecureTransport,
	404: wire.NotFound, 405: wire.MethodNotAllowed, 408: wire.RequestTimeout,
	413: wire.PayloadTooLarge, 415: wire.UnsupportedMedia, 503: wire.Unavailable,
}

// writeError is the only place that says what an error is on the wire.
func (c *Control) writeError(w http.ResponseWriter, r *http.Request, status int, err error) {
	e := refusal(err)
	if e == nil {
		if code, ok := codes[status]; ok {
			e = &gateway.Error{Status: status, Code: code, Message: httpd.Sentence(err)}
		} else {
			e = errInternal
		}
	}
	if why := denial(err); why != "" {
		c.denied(r, "token refused", why)
	} else if e, ok := errors.AsType[httpd.OriginError](err); ok {
		c.denied(r, "request denied", string(e))
	}
	h := w.Header()
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Seconds())))
	}
	if exchangeOf(r.Context()).unread {
		// To use the connection again, net/http would wait for the rest of the body.
		h.Set("Connection", "close")
	}
	body, _ := httpd.EncodeJSON(wire.ErrorBody{Error: wire.ErrorInfo{Code: e.Code, Message: e.Message, Details: detailsOf(err)}})
	httpd.WriteJSON(w, e.Status, body)
}

// detailsOf returns what an error body says of err beside its code and its message.
func detailsOf(err error) map[string]any {
	details := map[string]any{}
	if kept, ok := errors.AsType[*keptError](err); ok {
		details["kept_for_seconds"] = int(kept.ttl.Seconds())
	}
	if wrong, ok := errors.AsType[*offsetError](err); ok {
		details["offset"] = wrong.have
	}
	if wrong, ok := errors.AsType[*fieldError](err); ok {
		details["field"] = wrong.field
	}
	return details
}

// denial returns in one word why a request was not let in, and nothing for
// other errors.
func denial(err error) string {
	if e, ok := errors.AsType[httpd.TokenError](err); ok {
		return string(e)
	}
	for _, d := range []struct {
		err  error
		word string
	}{
		{queue.ErrTokenUnknown, "unknown"},
		{queue.ErrTokenExpired, "expired"},
		{queue.ErrTokenRevoked, "revoked"},
		{queue.ErrOtherWorker, "mismatch"},
		{queue.ErrEnrollToken, "enroll"},
		{errAdminToken, "admin"},
		{errClientToken, "client"},
	} {
		if errors.Is(err, d.err) {
			return d.word
		}
	}
	return ""
}

// denied records that a request was not let in. Strangers decide how often that
// happens, so not every one is logged.
func (c *Control) denied(r *http.Request, msg, why string) {
	c.Metrics.denials.WithLabelValues(why).Inc()
	c.refused.Warn(c.Log, r, msg, why)
}

// keptError is a result that came too late and is kept for the operators.
type keptError struct{ ttl time.Duration }

func (e *keptError) Error() string { return "late result, kept aside: " + jobs.ErrLeaseLost.Error() }
func (e *keptError) Unwrap() error { return jobs.ErrLeaseLost }

func missing(field string) error {
	return &gateway.Error{Status: 400, Code: wire.InvalidPayload, Message: "Missing required field: " + field}
}

func invalid(field, format string, args ...any) error {
	return &gateway.Error{Status: 400, Code: wire.InvalidPayload, Message: "Invalid field " + field + ": " + fmt.Sprintf(format, args...)}
}

package relay

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"syscall"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// refusal is the error of a request as the caller is told.
type refusal struct {
	status  int
	code    string
	message string
}

func (e *refusal) Error() string { return e.code + ": " + e.message }

// statusCodes are the codes of the errors of package httpd.
var statusCodes = map[int]string{
	400: "INVALID_ARGUMENT", 403: "FORBIDDEN", 404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 408: "REQUEST_TIMEOUT", 413: "PAYLOAD_TOO_LARGE",
	415: "UNSUPPORTED_MEDIA_TYPE", 416: "RANGE_NOT_SATISFIABLE", 503: "UNAVAILABLE",
}

// retryAfter is when to come again, in seconds, where that may help.
const retryAfter = 5

// refused returns what the caller is told of an error, and which field of the request it is about.
func refused(status int, err error) (*refusal, string) {
	if e, ok := errors.AsType[*refusal](err); ok {
		return e, ""
	}
	if e, ok := errors.AsType[*httpd.BodyError](err); ok {
		return &refusal{status, "INVALID_ARGUMENT", e.Error()}, e.Field
	}
	switch {
	case errors.Is(err, errEnded):
		return &refusal{http.StatusConflict, "CONFLICT", httpd.Sentence(err)}, ""
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &refusal{http.StatusInsufficientStorage, "DISK_FULL", "The disk of the relay is full"}, ""
	case errors.Is(err, jobs.ErrUnavailable):
		return &refusal{http.StatusServiceUnavailable, "UNAVAILABLE", "The relay cannot write to its disk; try again later"}, ""
	case errors.Is(err, fs.ErrNotExist):
		return &refusal{http.StatusNotFound, "NOT_FOUND", "No such task or artifact"}, ""
	}
	if code, ok := statusCodes[status]; ok {
		return &refusal{status, code, httpd.Sentence(err)}, ""
	}
	return &refusal{http.StatusInternalServerError, "INTERNAL", "Internal error"}, ""
}

// writeError is the only place that writes errors to the wire.
func (s *server) writeError(w http.ResponseWriter, r *http.Request, status int, err error) {
	e, field := refused(status, err)
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusInsufficientStorage:
		s.relay.Metrics.refusals.WithLabelValues(e.code).Inc()
	}
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		s.throttle.Warn(s.relay.Log, r, "request denied", e.code)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusInsufficientStorage:
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	if r.ContentLength != 0 && e.status != http.StatusConflict && e.status != http.StatusTooManyRequests {
		// To use the connection again, net/http would wait for the rest of the body.
		w.Header().Set("Connection", "close")
	}
	details := map[string]string{}
	if field != "" {
		details["field"] = field
	}
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"code": e.code, "message": jobs.Clip(jobs.VisibleLine(e.message), 1000, "…"), "details": details}})
	httpd.WriteJSON(w, e.status, append(body, '\n'))
}

package jobapi

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// retryAfter is when to retry if the error does not tell.
const retryAfter = 5 * time.Second

var (
	errNoJob            = &Refusal{Status: http.StatusNotFound, Code: CodeNotFound, Message: "No such job, or not any more: jobs of system and utils are known to the server that runs them, until it restarts"}
	errReadOnly         = &Refusal{Status: http.StatusForbidden, Code: CodeReadOnly, Message: "This server is read-only"}
	errTooManyListeners = &Refusal{Status: http.StatusServiceUnavailable, Code: CodeUnavailable, Message: "Too many follow jobs here; try again later"}
	errUnavailable      = &Refusal{Status: http.StatusServiceUnavailable, Code: CodeUnavailable, Message: "The place where these jobs are kept does not answer; try again later"}
)

// codes are those of the errors of package httpd.
var codes = map[int]string{
	400: CodeInvalidArgument, 401: CodeUnauthorized, 403: CodeForbidden, 404: CodeNotFound, 405: CodeMethodNotAllowed,
	408: CodeRequestTimeout, 413: CodeTooLarge, 415: CodeUnsupportedMedia, 503: CodeUnavailable,
}

// refusal returns what the caller is told of an error to which package httpd gives
// status.
func refusal(status int, err error) *Refusal {
	if e, ok := errors.AsType[*Refusal](err); ok {
		return e
	}
	if e, ok := errors.AsType[*FieldError](err); ok {
		return &Refusal{Status: http.StatusBadRequest, Code: CodeInvalidArgument, Message: e.Error(), Details: map[string]any{"field": e.Field}}
	}
	if e, ok := errors.AsType[*httpd.BodyError](err); ok {
		return &Refusal{Status: status, Code: CodeInvalidArgument, Message: e.Error(), Details: map[string]any{"field": shown(cmp.Or(e.Field, "body"))}}
	}
	if isUnavailable(err) || errors.Is(err, context.Canceled) { // canceled: the caller has left, or the server stops
		return errUnavailable
	}
	if code, ok := codes[status]; ok {
		return &Refusal{Status: status, Code: code, Message: httpd.Sentence(err)}
	}
	return &Refusal{Status: http.StatusInternalServerError, Code: CodeInternal, Message: "Internal error"}
}

// writeError is the only place that writes errors to the wire.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, status int, err error) {
	e := refusal(status, err)
	if errors.Is(err, httpd.ErrNoRoute) {
		e.Message = s.noRoute(r.URL.Path)
	}
	if why := whyDenied(err); why != "" {
		s.denied(r, why)
	}
	h := w.Header()
	switch e.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(int((cmp.Or(e.RetryAfter, retryAfter)+time.Second-1)/time.Second)))
	}
	if r.ContentLength != 0 && e.Status != http.StatusConflict && e.Status != http.StatusTooManyRequests {
		// To use the connection again, net/http would wait for the rest of the body.
		h.Set("Connection", "close")
	}
	body, err := errorBody(e)
	if err != nil { // details that are no JSON
		body, _ = errorBody(&Refusal{Code: e.Code, Message: e.Message})
	}
	httpd.WriteJSON(w, e.Status, body)
}

// noRoute returns the message for an unknown path: what there is instead.
func (s *Server) noRoute(path string) string {
	names := make([]string, 0, len(s.Scopes))
	offers := ""
	for _, sc := range s.Scopes {
		names = append(names, sc.Name)
		runner, ok := sc.Jobs.(Runner)
		if ok && strings.HasPrefix(path, root+sc.Name+"/") {
			offers = "; operations of " + sc.Name + ": " + strings.Join(slices.Sorted(slices.Values(runner.Operations())), ", ")
		}
	}
	return "No such route; scopes: " + strings.Join(names, ", ") + offers
}

// errorBody returns the envelope of an error, which looks like that of a job's.
func errorBody(e *Refusal) ([]byte, error) {
	return httpd.EncodeJSON(map[string]Error{"error": {Code: e.Code, Message: shown(e.Message), Details: e.Details}})
}

// denied counts and logs a request that a guard refused. Anyone can cause it, so the
// log is throttled.
func (s *Server) denied(r *http.Request, why string) {
	s.Metrics.denials.WithLabelValues(why).Inc()
	var token []slog.Attr
	if who := callOf(r).who; who != "" {
		token = append(token, slog.String("token", who))
	}
	s.throttle.Warn(s.Log, r, "request denied", why, token...)
}

// ofJob returns an error of a call about one job, for its caller.
func ofJob(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errNoJob
	}
	return err
}

// isUnavailable reports whether an error means that the store of the jobs does not
// answer.
func isUnavailable(err error) bool {
	return errors.Is(err, jobs.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// Error is a response that is not a success.
//
// It wraps [jobs.ErrLeaseLost] when that is its code, and [jobs.ErrUnavailable] when it is
// no decision: the control plane has trouble, or a proxy has responded in its place.
type Error struct {
	Status     int           // of HTTP
	Code       wire.Code     // empty when the response is not in the protocol
	Message    string        // for people; the beginning of a response that is not in the protocol
	RetryAfter time.Duration // 0 when there is none
}

// Error returns the status, the code and the message.
func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("status %d: %s", e.Status, e.Message)
	}
	return fmt.Sprintf("status %d %s: %s", e.Status, e.Code, e.Message)
}

// Unwrap returns the sentinel of package jobs for this error, nil when there is none.
func (e *Error) Unwrap() error {
	switch {
	case e.Code == wire.LeaseLost:
		return jobs.ErrLeaseLost
	case !e.decided():
		return jobs.ErrUnavailable
	}
	return nil
}

// decided reports whether a control plane has refused the call for good: the same call
// would be refused again. A proxy's page with status 403 or 404 is no decision, nor is the
// response of a misconfigured gateway, which does not know the route or the worker's TLS.
func (e *Error) decided() bool {
	switch e.Status {
	case http.StatusRequestEntityTooLarge: // proxies have this limit, too
		return true
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	if e.Code == wire.InsecureTransport || e.Code == wire.NotFound || e.Code == wire.MethodNotAllowed {
		return false
	}
	return e.Code != "" && e.Status >= 400 && e.Status < 500
}

// unauthorized reports whether the control plane does not know the token.
func (e *Error) unauthorized() bool { return e.Code != "" && e.Status == http.StatusUnauthorized }

// TokenRefused reports whether the control plane has refused the worker's token:
// a person must get it another one.
func (e *Error) TokenRefused() bool {
	return e.unauthorized() || e.Code == wire.TokenRevoked
}

// tail returns at most limit bytes from the end of s, as valid UTF-8: the last
// lines of a log say the most.
func tail(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	from := len(s) - limit
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}

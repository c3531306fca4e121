package gateway

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// Error is an answer of a control plane that is no success.
//
// It wraps [jobs.ErrLeaseLost] when it says that, and [jobs.ErrUnavailable] when
// it is no decision: the control plane has trouble, or it was somebody else on
// the way who answered, such as a proxy.
type Error struct {
	Status     int           // of HTTP
	Code       Code          // empty when the answer was not the protocol's
	Message    string        // for people; of an answer that was not the protocol's, its beginning
	RetryAfter time.Duration // 0 when it does not say
}

// Error says what was answered.
func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("status %d: %s", e.Status, e.Message)
	}
	return fmt.Sprintf("status %d %s: %s", e.Status, e.Code, e.Message)
}

// Unwrap returns what the rest of the fleet calls this error, nil if it has no
// word for it.
func (e *Error) Unwrap() error {
	switch {
	case e.Code == LeaseLost:
		return jobs.ErrLeaseLost
	case !e.decided():
		return jobs.ErrUnavailable
	}
	return nil
}

// decided reports whether a control plane has refused the call for good: the
// same call would be refused again. A page that some proxy sends with status 403
// or 404 decides nothing, and neither does a gateway that is set up wrong: one
// that knows no such route, or takes the worker's TLS for none.
func (e *Error) decided() bool {
	switch e.Status {
	case http.StatusRequestEntityTooLarge: // proxies have this limit, too
		return true
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	if e.Code == InsecureTransport || e.Code == NotFound || e.Code == MethodNotAllowed {
		return false
	}
	return e.Code != "" && e.Status >= 400 && e.Status < 500
}

// unauthorized reports whether the control plane does not know the token.
func (e *Error) unauthorized() bool { return e.Code != "" && e.Status == http.StatusUnauthorized }

// TokenRefused reports whether the control plane has refused the worker's token:
// a person must get it another one.
func (e *Error) TokenRefused() bool {
	return e.unauthorized() || e.Code == TokenRevoked
}

// quote returns the beginning of b for an error message.
func quote(b []byte) string { return httpd.Quote(redact(string(b))) }

var ourToken = regexp.MustCompile(`\bzp[we]_[A-Za-z0-9_-]+`)

// redact takes out of s what may be a secret: our tokens, passwords in URLs, and
// whatever follows the word Bearer. Values by their names it leaves: it would take
// the text behind a code like INVALID_ENROLL_TOKEN for one.
func redact(s string) string {
	return ourToken.ReplaceAllString(worker.RedactAddresses(s), "[redacted]")
}

// Clip returns at most limit bytes from the beginning of s, as valid UTF-8.
func Clip(s string, limit int) string { return httpd.Clip(s, limit) }

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

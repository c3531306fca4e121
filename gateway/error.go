package gateway

import (
	"fmt"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Error is an answer of a control plane that is no success.
//
// It wraps [jobs.ErrLeaseLost] when it says that, and [jobs.ErrUnavailable] when
// it is no decision.
type Error struct {
	Status     int           // of HTTP
	Code       Code          // empty when the answer was not the protocol's
	Message    string        // for people
	RetryAfter time.Duration // 0 when it does not say
}

// Error says what was answered.
func (e *Error) Error() string { return fmt.Sprintf("status %d %s: %s", e.Status, e.Code, e.Message) }

// Unwrap returns what the rest of the fleet calls this error, nil if it has no
// word for it.
func (e *Error) Unwrap() error {
	switch {
	case e.Code == LeaseLost:
		return jobs.ErrLeaseLost
	case e.Status >= http.StatusInternalServerError:
		return jobs.ErrUnavailable
	}
	return nil
}

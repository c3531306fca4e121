package operations

import (
	"fmt"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
)

// within checks a number of a request, and sets it where it is not given.
func within[T int64 | float64](field string, v **T, otherwise, low, high T) error {
	if *v == nil {
		*v = &otherwise
		return nil
	}
	if n := **v; n < low || n > high { // JSON knows no NaN
		return &jobapi.FieldError{Field: field, Problem: fmt.Sprintf("must be from %v to %v, not %v", low, high, n)}
	}
	return nil
}

// pollInterval is the field of operations that wait.
type pollInterval struct {
	PollIntervalMs *int64 `json:"pollIntervalMs"`
}

func (p *pollInterval) checkPoll() error {
	return within("pollIntervalMs", &p.PollIntervalMs, 1000, jobapi.MinPollInterval.Milliseconds(), jobapi.MaxPollInterval.Milliseconds())
}

func (p *pollInterval) every() time.Duration {
	return time.Duration(*p.PollIntervalMs) * time.Millisecond
}

// notSetUp is the refusal of what this server has no configuration for.
func notSetUp(why string) error {
	return &jobapi.Refusal{Status: http.StatusConflict, Code: jobapi.CodePrecondition, Message: why}
}

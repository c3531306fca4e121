package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

var (
	_ jobapi.Runner   = (*Engine)(nil)
	_ jobapi.Notifier = (*Engine)(nil)
)

// Operations implements [jobapi.Runner].
func (e *Engine) Operations() []string {
	names := make([]string, len(e.Supported))
	for i, op := range e.Supported {
		names[i] = op.Name
	}
	return names
}

// NewRequest implements [jobapi.Runner]. It returns nil for what is no operation.
func (e *Engine) NewRequest(operation string) jobapi.Request {
	op, err := e.operation(operation)
	if err != nil {
		return nil
	}
	return op.New()
}

// Plan implements [jobapi.Runner]. A step that cannot be asked yet, because it
// needs what an earlier one brings about, would run, and says what it met. Nothing
// can be said while what it asks is away.
func (e *Engine) Plan(ctx context.Context, operation string, r jobapi.Request) ([]jobapi.Planned, error) {
	e.once.Do(e.prepare)
	if _, err := e.operation(operation); err != nil {
		return nil, err
	}
	plan := []jobapi.Planned{}
	err := e.recoverPanics("plan "+operation, func() error {
		for _, s := range r.(Request).Steps() { // as NewRequest has made it
			planned := jobapi.Planned{Step: s.Name, Action: "run", Reason: text(s.Description)}
			if s.AlreadyDone != nil {
				reason, done, err := s.AlreadyDone(ctx)
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				switch {
				case errors.Is(err, jobs.ErrUnavailable):
					return &jobapi.Refusal{Status: http.StatusServiceUnavailable, Code: jobapi.CodeUnavailable, Message: text("Cannot plan " + s.Name + ": " + err.Error())}
				case err != nil:
					planned.Reason = text(s.Description + "; as it is now: " + err.Error())
				case done:
					planned.Action, planned.Reason = "skip", text(reason)
				case reason != "":
					planned.Reason = text(reason)
				}
			}
			plan = append(plan, planned)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", operation, err)
	}
	return plan, nil
}

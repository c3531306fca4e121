package engine

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

var errPanic = errors.New("the program has made a mistake; the server's log says more")

// CodeUpstream is the code of a job that has failed because something outside could not
// be reached.
const CodeUpstream = "UPSTREAM_UNAVAILABLE"

// maxDetails is how long the details of an error may be as JSON. The engine has
// no place for whole documents.
const maxDetails = 64 << 10

// failure returns what a job shows of the error of a step, which may panic when it
// is asked what it says. It returns nil for nil.
func (e *Engine) failure(err error) (shown *jobapi.Error) {
	if err == nil {
		return nil
	}
	if e.recoverPanics("say why a step failed", func() error { shown = failure(err); return nil }) != nil {
		return failure(errPanic)
	}
	return shown
}

// failure returns what a job shows of an error.
func failure(err error) *jobapi.Error {
	shown := &jobapi.Error{Code: jobapi.CodeFailed, Message: text(err.Error())}
	var f *Failure
	var refused *jobapi.Refusal
	switch {
	case errors.Is(err, errPanic):
		shown.Code = jobapi.CodeInternal
	case errors.As(err, &f):
		if jobs.ValidCode(f.Code) {
			shown.Code = f.Code
		}
		shown.Details = details(f.Details)
	case errors.As(err, &refused): // its code is not said again in the text
		shown.Code, shown.Message = refused.Code, text(strings.Replace(err.Error(), refused.Error(), refused.Message, 1))
	case errors.Is(err, jobs.ErrUnavailable):
		shown.Code = CodeUpstream
		shown.Message = strings.ReplaceAll(shown.Message, jobs.ErrUnavailable.Error()+": ", "") // the code says it
	}
	return shown
}

// details returns a copy without secrets.
func details(d map[string]any) (clean map[string]any) {
	if len(d) == 0 {
		return nil
	}
	encoded, err := json.Marshal(d)
	if err != nil || len(encoded) > maxDetails || json.Unmarshal(redact.JSON(encoded), &clean) != nil {
		return map[string]any{"omitted": true}
	}
	return clean
}

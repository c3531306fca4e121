package zpe

import (
	"errors"
	"fmt"

	"github.com/batchfleet/batchfleet/jobs"
)

// The codes of the failures of this package; SPEC.md says when which comes and
// whether it is final.
const (
	CodeInvalidInput = "INVALID_INPUT"
	CodeInputError   = "QE_INPUT_ERROR"
	CodeNotConverged = "QE_NOT_CONVERGED"
	CodeIncomplete   = "QE_INCOMPLETE"
	CodeRuntimeError = "QE_RUNTIME_ERROR"
	CodeOutOfMemory  = "QE_OUT_OF_MEMORY"
	CodeTimeout      = "QE_TIMEOUT"
	CodePseudo       = "PSEUDO_MISSING"
	CodeMissing      = "QE_MISSING"
)

// failure returns a failure that another attempt, perhaps on another machine, may
// not have.
func failure(code, format string, args ...any) *jobs.Failure {
	return &jobs.Failure{Code: code, Err: fmt.Errorf(format, args...)}
}

// final returns a failure that every attempt would have.
func final(code, format string, args ...any) *jobs.Failure {
	return &jobs.Failure{Code: code, Final: true, Err: fmt.Errorf(format, args...)}
}

// during says in which run a failure has come up.
func during(what string, err error) error {
	f := (*jobs.Failure)(nil)
	if !errors.As(err, &f) {
		return fmt.Errorf("%s: %w", what, err)
	}
	named := *f
	if named.Detail != "" {
		named.Detail = what + ":\n" + named.Detail
	} else {
		named.Detail = "in " + what
	}
	return &named
}

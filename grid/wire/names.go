package wire

import (
	"fmt"
	"strings"
)

// Limits of a request.
const (
	MaxArgs     = 1000
	MaxArgBytes = 128 << 10 // of all arguments together
	MaxFiles    = 1000
	MaxName     = 64  // bytes of a ClientId, and of each token of an ExecName
	MaxExec     = 200 // bytes of an ExecName
)

// Subjects.
const (
	SubmitPrefix   = "job.submit."
	AssignPrefix   = "job.assign."
	ResultPrefix   = "job.result."
	DefaultPattern = "job.assign.*"
)

// SubmitSubject returns the subject of a SubmitJob.
func SubmitSubject(exec string) string { return SubmitPrefix + exec }

// AssignSubject returns the subject of an AssignJob to a worker.
func AssignSubject(exec string, worker GUID) string { return AssignPrefix + exec + "." + worker.N() }

// ResultSubject returns the subject of the Result of a job.
func ResultSubject(client string, job GUID) string { return ResultPrefix + client + "." + job.N() }

// ExecOf returns the exec in the subject of a SubmitJob. It reports false for any other subject.
func ExecOf(subject string) (string, bool) { return strings.CutPrefix(subject, SubmitPrefix) }

// CheckClientID returns what is wrong with a ClientId, or nil: it must be 1 to 64 letters, digits, _ or -.
func CheckClientID(s string) error {
	if !token(s) {
		return fmt.Errorf("ClientId %.80q must be 1 to %d letters, digits, _ or -", s, MaxName)
	}
	return nil
}

// CheckExecName returns what is wrong with an ExecName, or nil: it must be tokens like a ClientId, with dots between them.
func CheckExecName(s string) error { return checkTokens("ExecName", s) }

// checkTokens checks an ExecName, or a CacheId, which has the same form.
func checkTokens(what, s string) error {
	if len(s) > MaxExec {
		return fmt.Errorf("%s %.80q has %d bytes, at most %d", what, s, len(s), MaxExec)
	}
	for part := range strings.SplitSeq(s, ".") {
		if !token(part) {
			return fmt.Errorf("%s %.80q must be tokens of 1 to %d letters, digits, _ or -, with dots between them", what, s, MaxName)
		}
	}
	return nil
}

func token(s string) bool {
	if s == "" || len(s) > MaxName {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

package wire

import (
	"fmt"
	"strings"
)

// Limits of a request.
const (
	MaxArgs     = 1000
	MaxArgBytes = 128 << 10 // of all together
	MaxFiles    = 1000
	MaxName     = 64  // of a client, and of each part of an exec's name
	MaxExec     = 200 // with its dots
)

// Subjects.
const (
	SubmitPrefix   = "job.submit."
	AssignPrefix   = "job.assign."
	ResultPrefix   = "job.result."
	DefaultPattern = "job.assign.*"
)

// CheckClientID returns what is wrong with the name of a client: it is 1 to 64 letters, digits, _ and -.
func CheckClientID(s string) error {
	if !token(s) {
		return fmt.Errorf("ClientId %.80q must be 1 to %d letters, digits, _ or -", s, MaxName)
	}
	return nil
}

// CheckExecName returns what is wrong with the name of an exec: parts like the name of a client, between dots.
func CheckExecName(s string) error {
	if len(s) > MaxExec {
		return fmt.Errorf("ExecName %.80q has %d bytes, at most %d", s, len(s), MaxExec)
	}
	for part := range strings.SplitSeq(s, ".") {
		if !token(part) {
			return fmt.Errorf("ExecName %.80q must be parts of 1 to %d letters, digits, _ or -, with dots between them", s, MaxName)
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

package jobs

import (
	"fmt"
	"strings"
	"time"
)

// MaxIDLength is the longest job id in bytes. An id becomes part of a Redis
// key, of an object name and of a URL path, and each of those stays readable.
const MaxIDLength = 128

// ID names a job. It matches ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$ and holds no
// "..", so it is safe in object names, Redis keys, URLs and logs as it stands.
type ID string

// ParseID checks that s is a job id and returns it as one. The error tells what
// is wrong with s and quotes at most the beginning of it.
func ParseID(s string) (ID, error) {
	switch {
	case s == "":
		return "", fmt.Errorf("job id is empty")
	case len(s) > MaxIDLength:
		return "", fmt.Errorf("job id %.16q… is %d bytes long, at most %d are allowed", s, len(s), MaxIDLength)
	case !isAlphanumeric(s[0]):
		return "", fmt.Errorf("job id %q must begin with a letter or digit", s)
	case strings.Contains(s, ".."):
		return "", fmt.Errorf("job id %q must not contain %q", s, "..")
	}
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return "", fmt.Errorf("job id %q may hold only letters, digits, '.', '_' and '-'", s)
		}
	}
	return ID(s), nil
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// MaxPages is the most pages that a job may be asked to simulate.
const MaxPages = 100_000

// MaxDelay is how far in the future a job's NotBefore may be: its place in the lists is kept
// for a week.
const MaxDelay = 6 * 24 * time.Hour

// Kind is what a job does, and so which handler runs it: "pdf", "mock".
type Kind string

// Job is a unit of work as it was submitted. It does not change afterwards.
type Job struct {
	ID        ID
	Kind      Kind
	Input     string    // object name of the document in the store; empty for kinds without one
	Inputs    []string  // the same where there are several; then Input is empty
	Pages     int       // how many pages to simulate, at most MaxPages; 0 for the kind's own choice; mock only
	Submitted time.Time // when the sender says it was; zero if it does not say
	NotBefore time.Time // it is not started earlier; zero for at once
	Trace     string    // W3C traceparent of the submitting request; empty if there was none
	// Payload is what the job is asked to do, a JSON text that its kind knows how to
	// read: its parameters. Empty for kinds that need nothing but the fields above.
	Payload string
}

package command

import (
	"fmt"
	"path"
	"strings"
	"syscall"
)

// Reason is why a process ended other than by exiting with 0.
type Reason uint8

// The reasons. OverMemory is what the process's last words suggest: a process
// that is refused memory ends as it likes.
const (
	Exited     Reason = iota + 1 // by itself, with a code other than 0
	Signaled                     // by a signal that Run has not sent
	OverWall                     // stopped: Limits.Wall
	OverCPU                      // killed: Limits.CPU
	OverMemory                   // failed: Limits.Memory
	OverOutput                   // stopped: Limits.LineBytes or Limits.OutputBytes
)

// String returns what happened, for people.
func (r Reason) String() string {
	switch r {
	case Exited:
		return "exited"
	case Signaled:
		return "signaled"
	case OverWall:
		return "took too long"
	case OverCPU:
		return "used too much CPU time"
	case OverMemory:
		return "used too much memory"
	case OverOutput:
		return "wrote too much"
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// ExitError says how a process ended other than by exiting with 0.
type ExitError struct {
	Path   string // of the executable
	Reason Reason
	Limit  string         // the limit it ran into, for people; empty if none
	Code   int            // exit code; -1 if a signal ended it
	Signal syscall.Signal // the signal that ended it; 0 if it exited
	// Stderr is the beginning and the end of what it wrote to stderr, at most
	// 4 KiB, as valid UTF-8.
	Stderr string
}

// Error returns one line about the end and then what the process wrote to stderr.
func (e *ExitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s: ", path.Base(e.Path))
	if e.Limit != "" {
		fmt.Fprintf(&b, "%s (limit: %s), ", e.Reason, e.Limit)
	}
	if e.Signal != 0 {
		fmt.Fprintf(&b, "ended by signal %d (%s)", int(e.Signal), e.Signal)
	} else {
		fmt.Fprintf(&b, "exit status %d", e.Code)
	}
	if words := strings.TrimSpace(e.Stderr); words != "" {
		b.WriteString(": " + words)
	}
	return b.String()
}

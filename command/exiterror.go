package command

import (
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// Reason is why a process ended other than by exiting with 0.
type Reason uint8

// The reasons. OverMemory is what the kernel reports of the cgroup of Limits.TotalMemory.
// Without one it is what the end of stderr suggests: a process that is refused memory
// ends as it likes.
const (
	Exited        Reason = iota + 1 // by itself, with a code other than 0
	Signaled                        // by a signal that Run has not sent
	OverWall                        // stopped: Limits.Wall
	OverCPU                         // killed: Limits.CPU
	OverMemory                      // failed: Limits.Memory or Limits.TotalMemory
	OverOutput                      // stopped: Limits.LineBytes or Limits.OutputBytes
	OverProcesses                   // stopped: Limits.Processes
	OverDisk                        // stopped: Limits.Disk
)

var reasons = [...]string{
	Exited: "exited", Signaled: "signaled", OverWall: "took too long", OverCPU: "used too much CPU time",
	OverMemory: "used too much memory", OverOutput: "wrote too much",
	OverProcesses: "started too many processes", OverDisk: "used too much disk",
}

// String returns what happened, for people.
func (r Reason) String() string {
	if r < Exited || r > OverDisk {
		return fmt.Sprintf("reason(%d)", uint8(r))
	}
	return reasons[r]
}

// ExitError describes how a process ended other than by exiting with 0.
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
	if text := strings.TrimSpace(e.Stderr); text != "" {
		b.WriteString(": " + text)
	}
	return b.String()
}

func (r *run) exitError(reason Reason, limit string) *ExitError {
	e := &ExitError{Path: r.Path, Reason: reason, Limit: limit, Code: -1, Stderr: r.tail.String()}
	if r.state != nil {
		e.Code, e.Signal = r.state.ExitCode(), signalOf(r.state)
	}
	return e
}

// exitReason returns why a process that was not stopped has failed, and the limit
// that is the reason.
func (r *run) exitReason() (Reason, string) {
	signal := signalOf(r.state)
	limit := r.Limits.cpuSeconds()
	// The kernel kills by the ticks that hit the process, each counted whole, and
	// reports the time it really ran, which on a busy machine is less.
	slack := max(limit/10, time.Second/2)
	if limit > 0 && signal == syscall.SIGKILL && cpuTime(r.state) > limit-slack {
		return OverCPU, fmt.Sprintf("%s of CPU time", limit)
	}
	if r.oomKilled {
		return OverMemory, size(r.Limits.TotalMemory) + " of memory"
	}
	if limit := r.Limits.processMemory(r.descendants.controlled()); limit > 0 && reportsNoMemory(r.tail.String()) {
		return OverMemory, fmt.Sprintf("%d bytes of memory", limit)
	}
	if signal != 0 {
		return Signaled, ""
	}
	return Exited, ""
}

// reportsNoMemory reports whether stderr has the message of a runtime that was
// refused memory: Go, also for the stack of a thread, the C library, C++, Python, the sanitizers.
func reportsNoMemory(stderr string) bool {
	for _, phrase := range []string{"out of memory", "annot allocate memory", "bad_alloc", "MemoryError", "failed to allocate", "pthread_create failed"} {
		if strings.Contains(stderr, phrase) {
			return true
		}
	}
	return false
}

func signalOf(s *os.ProcessState) syscall.Signal {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return 0
}

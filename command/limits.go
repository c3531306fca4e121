package command

import (
	"cmp"
	"fmt"
	"time"
)

// Limits are what a process may use. Zero is no limit unless the field says
// otherwise.
type Limits struct {
	// Memory is the private writable memory of each process in bytes
	// (RLIMIT_DATA). It is not the address space: Go and others reserve
	// far more than they use; the smallest Go program begins with 75 MB. What
	// happens at the limit is up to the process: a Go program ends with exit
	// code 2 and "out of memory".
	Memory int64
	// CPU is the time a process may compute, rounded up to seconds; then the
	// kernel kills it.
	CPU time.Duration
	// Wall is the time until the process is stopped.
	Wall time.Duration
	// FileBytes is the size of the largest file it may write.
	FileBytes int64
	// OpenFiles is the number of files each process may have open.
	OpenFiles int
	// LineBytes is the longest line of output; 0 for 1 MiB. It is held in memory.
	LineBytes int
	// OutputBytes is what it may write to stdout and stderr together.
	OutputBytes int64
}

// defaultLineBytes applies when Limits.LineBytes is 0.
const defaultLineBytes = 1 << 20

func (l Limits) lineBytes() int { return cmp.Or(l.LineBytes, defaultLineBytes) }

// cpuSeconds is the limit on CPU time as the kernel counts it, in whole seconds.
func (l Limits) cpuSeconds() time.Duration {
	return (l.CPU + time.Second - 1).Truncate(time.Second)
}

// limitError is the cause of a stop for which a limit is the reason.
type limitError struct {
	reason Reason
	limit  string // for people
}

func (e *limitError) Error() string { return fmt.Sprintf("%s (limit: %s)", e.reason, e.limit) }

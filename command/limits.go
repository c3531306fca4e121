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
	// TotalMemory is what all processes of the run may have together, in bytes, with files
	// in memory, by a cgroup (memory.max): see [ControlCgroup]. At the limit the kernel kills all of
	// them. Where there is no such cgroup, it holds for each process, as Memory does.
	TotalMemory int64
	// Processes is how many processes and threads there may be at once. With a cgroup
	// (pids.max) the kernel makes no more of them, else more are there until they are
	// counted, after a tenth of a second and then as often as takes 5 % of the time. In both cases
	// the run is stopped. It is not used with Command.Alone.
	Processes int
	// Disk is what the files of the process may take, in bytes. Command.DiskUsage tells how much it
	// is, each second, or less often if that takes long; for a moment it may be more.
	Disk int64
	// CPU is the time a process may compute, rounded up to seconds; then the
	// kernel kills it.
	CPU time.Duration
	// Wall is the time until the process is stopped.
	Wall time.Duration
	// FileBytes is the size of the largest file it may write.
	FileBytes int64
	// OpenFiles is the number of files each process may have open.
	OpenFiles int
	// Nice is how far the processes stand back for others on the CPU: it is added to the niceness of the caller, as nice(1)
	// does. Children inherit it.
	Nice int
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

// processMemory is the limit on the memory of each process. total says that there is
// another one for all of them together.
func (l Limits) processMemory(total bool) int64 {
	if l.TotalMemory > 0 && !total && (l.Memory == 0 || l.TotalMemory < l.Memory) {
		return l.TotalMemory
	}
	return l.Memory
}

// size writes a number of bytes for people.
func size(n int64) string {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if one := int64(1) << (40 - 10*i); n > 0 && n%one == 0 {
			return fmt.Sprintf("%d %s", n/one, unit)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// limitError is the cause of a stop for which a limit is the reason.
type limitError struct {
	reason Reason
	limit  string // for people
}

func (e *limitError) Error() string { return fmt.Sprintf("%s (limit: %s)", e.reason, e.limit) }

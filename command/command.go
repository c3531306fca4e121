// Package command runs one executable safely: in its own process group, under
// limits, with nothing inherited but what it is given, and with nothing left of
// it when [Command.Run] returns.
//
// The executable reads its request from stdin, answers with lines on stdout and
// complains on stderr. It may be hostile, or fed by someone hostile: it can crash,
// hang, fill the memory, write without end, leave children behind. None of that
// harms the caller, and the error says which of it happened. A [Session] answers
// several requests.
//
// It is not a sandbox: the process has the rights of the caller's user. A child
// that leaves the group, as one with a session of its own does, is found by
// [Marker] in its environment; one that has removed that, or has become another
// user, is not.
//
// On systems other than Linux there are no limits but those on time and output,
// and only the process itself is stopped, not its children.
//
// The package imports nothing else of the project; every other package above it
// may import it.
package command

import (
	"context"
	"io"
	"time"
)

// Command is an executable and how to run it. It may be run many times, and
// concurrently if Stdin is nil and Line allows it.
type Command struct {
	Path string   // the file to execute; PATH is not searched
	Args []string // its arguments, without its own name
	Dir  string   // where it runs; empty for the caller's directory
	Env  []string // exactly its environment but for [Marker] (unless Alone), as NAME=value; nothing is inherited

	// Stdin is what the process reads, nothing if nil. The process gets its
	// first byte when the limits are in force, so a process that waits for its
	// request is never without them. A Read that never returns does not hold up
	// Run, but keeps a goroutine.
	Stdin io.Reader
	// Line is called for every line of stdout without its newline, in order, by
	// the goroutine that called Run; nil to ignore them. A last line without a
	// newline counts only if the process exits with 0. The slice is valid until
	// Line returns. An error stops the process and is returned by Run.
	Line func(line []byte) error

	// Alone says that the process starts no others. So none are looked for when
	// it has ended, which would take a look at every process of the machine.
	Alone bool

	Limits Limits
	Grace  time.Duration // between SIGTERM and SIGKILL; 0 for SIGKILL at once
}

// Limits are what a process may use. Zero is no limit, if not said otherwise.
type Limits struct {
	// Memory is the private writable memory of each process in bytes
	// (RLIMIT_DATA). It is not the address space, of which Go and others reserve
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
	// LineBytes is the longest line on stdout; 0 for 1 MiB. It is held in memory.
	LineBytes int
	// OutputBytes is what it may write to stdout and stderr together.
	OutputBytes int64
}

// Marker is a variable that Run adds to the environment unless Alone is set. Each run
// has its own value. When the run is over, every process that still has it is killed. A process that
// gives its children an environment of their own should pass it on.
const Marker = "BATCHFLEET_RUN"

// defaultLineBytes applies when Limits.LineBytes is 0.
const defaultLineBytes = 1 << 20

// Usage is what a run has cost.
type Usage struct {
	Wall      time.Duration
	CPU       time.Duration // of the process and those of its children it waited for
	MaxMemory int64         // largest resident set in bytes; 0 if unknown
}

// Run starts the process and waits until it and its group are gone. It returns
// nil if the process exited with 0. Otherwise the error is that of Line or Stdin,
// the cause of ctx if that has stopped the process, an [*ExitError], or says why
// the process could not be started.
//
// To stop the process, its group gets SIGTERM, and after Grace SIGKILL. When it
// has exited, what is left of its group, or has its [Marker], gets SIGKILL. If the
// caller is killed, the kernel kills the process, but not its children: see [Sweep].
//
// Run holds one thread and, while the process runs, four goroutines, which it
// waits for.
func (c *Command) Run(ctx context.Context) (Usage, error) {
	r, err := c.start(ctx, false)
	if err != nil {
		return Usage{}, err
	}
	defer r.abandon() // if Line panics
	lineErr := r.lines(func() bool { return false })
	if lineErr != nil {
		r.stop(lineErr)
	}
	r.end()
	return r.usage(), r.result(lineErr)
}

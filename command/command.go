// Package command runs one executable safely: in its own process group, under
// limits, with nothing inherited but what it is given, and with nothing left of
// it when [Command.Run] returns.
//
// The executable reads its request from stdin and writes lines. They are either
// answers on stdout, to be read exactly ([Command.Line]), or a log on stdout and
// stderr, which may be cut ([Command.Output]). A [Session] answers several
// requests.
//
// The executable or its input may be hostile. It can crash, hang, fill the memory,
// write without end and leave children behind. None of that harms the caller. The
// error is an [*ExitError] with the [Reason].
//
// It is not a sandbox: the process has the rights of the caller's user. What holds
// depends on where the caller runs, as root or not.
//
//   - Everywhere on Linux: limits of each process (rlimits), and on time, output and disk; the
//     process and its group are killed when the run ends, and the process when the caller is killed.
//   - Without a cgroup, as in a container whose /sys/fs/cgroup is read-only, and for an ordinary user: a child
//     that has left the group, as one with a session of its own does, is found by [Marker] in its
//     environment. One that has removed that variable, or has become another user, is not found. Processes
//     are counted, and Limits.TotalMemory holds for each of them. A program that forks into sessions of its own
//     faster than it is counted and killed is not stopped.
//   - With a cgroup (version 2, Linux 5.14), which the caller can make where it may write to its own: nothing leaves it,
//     and the kernel kills all that is in it at once.
//   - With a cgroup that has limits ([ControlCgroup]): the kernel makes no more processes than
//     Limits.Processes, and Limits.TotalMemory holds for all of them together. So it is in the root cgroup, in a
//     container of its own with a writable /sys/fs/cgroup, and in a service of systemd with Delegate=yes.
//
// On systems other than Linux there are no limits but those on time, output and disk,
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
// concurrently if Stdin is nil and the callbacks allow it. The callbacks are
// called by the goroutine that called Run, one at a time.
type Command struct {
	Path string   // the file to execute; PATH is not searched
	Args []string // its arguments, without its own name
	Dir  string   // where it runs; empty for the caller's directory
	Env  []string // exactly its environment but for [Marker] (unless Alone), as NAME=value; nothing is inherited

	// Stdin is what the process reads, nothing if nil. The process gets its
	// first byte when the limits are in force and Started has returned. On Linux it is held before its first
	// instruction until the limits are in force, unless the kernel forbids to trace it (ptrace) or its file
	// gives it further rights (setuid). A Read that never
	// returns does not hold up Run, but keeps a goroutine.
	Stdin io.Reader

	// Started is called when the limits are in force, before the process gets the
	// first byte of Stdin. An error stops the process and is returned by Run.
	Started func(Process) error

	// Line is called for every line of stdout without its newline, in order; nil
	// to ignore them. It is for answers: a line over Limits.LineBytes and output
	// over Limits.OutputBytes stop the process. A last line without a newline
	// counts only if the process exits with 0. The slice is valid until Line
	// returns. An error stops the process and is returned by Run.
	Line func(line []byte) error

	// Output is called for every line of stdout and stderr, in order for each of
	// them. It is for logs: "\r" and "\r\n" end a line as "\n" does, and no limit
	// on output stops the process. A line over Limits.LineBytes is cut there, and
	// the rest of it is dropped. What comes after Limits.OutputBytes is read and
	// dropped, and counted in Usage.Dropped; the line at that limit is cut, too. A
	// last line without a line end always counts. The slice is valid until Output returns. The process waits
	// while Output does not return, once its pipes are full. An error stops the
	// process and is returned by Run. At most one of Line, Output and Chunk may be set.
	Output func(stream Stream, line []byte, cut bool) error

	// Chunk is called for what is read from stdout and stderr, as it is, in order for each of them. No limit on output
	// stops the process. The slice is valid until Chunk returns. The process waits while Chunk does not return, once its
	// pipes are full. An error stops the process and is returned by Run.
	Chunk func(stream Stream, p []byte) error

	// Overwritten is called in place of Output for a line that ends in "\r" alone: the
	// process is about to write over it, as a progress bar does. Nil to pass these lines to
	// Output, too. A line whose "\r\n" is read in two parts counts as one of them.
	Overwritten func(stream Stream, line []byte) error

	// DiskUsage returns what the files of the process take, in bytes. It is called by a goroutine of
	// its own if Limits.Disk is set. If it has returned nothing but errors for 10 s, the
	// process is stopped: it may hide what it uses.
	DiskUsage func() (int64, error)

	// Alone means that the process starts no others. Then Run makes no cgroup and
	// sets no Marker, and does not search for children when the process has ended.
	Alone bool

	// Cgroups keeps the cgroup of the run for another one, if nothing is left in it. Nil to make one for each run, and
	// when Started is set.
	Cgroups *Cgroups

	Limits Limits
	Grace  time.Duration // between SIGTERM and SIGKILL; 0 for SIGKILL at once
	// GraceOf is asked instead of Grace, unless it is nil, with the cause of the stop.
	GraceOf func(cause error) time.Duration
}

// Run starts the process and waits until it and its group are gone. It returns
// nil if the process exited with 0. Otherwise the error is that of a callback or
// Stdin, the cause of ctx if that has stopped the process, an [*ExitError], or
// the reason why the process could not be started.
//
// To stop the process, its group gets SIGTERM, and after Grace SIGKILL. When it
// has exited, what is left of its group and its descendants gets SIGKILL. If the
// caller is killed, the kernel kills the process, but not its children: see [Sweep].
//
// Run holds one thread and, while the process runs, up to seven goroutines, which
// it waits for. A call of DiskUsage that has begun is waited for, too.
func (c *Command) Run(ctx context.Context) (Usage, error) {
	r, err := c.start(ctx, false)
	if err != nil {
		return Usage{}, err
	}
	defer r.close() // if a callback panics
	err = r.begin()
	if err == nil {
		err = r.readOutput()
	}
	if err != nil {
		r.stop(err)
	}
	r.wait()
	return r.usage(), r.result(err)
}

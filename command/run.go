package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// exitWait bounds the waiting for what something outside the group can delay: a
// descendant that has left the group and holds a pipe, or a reader behind Stdin
// that does not return.
const exitWait = time.Second

// run is one process from its start to its end.
type run struct {
	*Command
	descendants descendants
	began       time.Time
	proc        *os.Process
	startTime   uint64 // see Process.Start; 0 if Started is nil
	unlimited   error  // why the limits could not be put in force

	// stopping ends with the cause for which the process has to be stopped.
	stopping context.Context // lives for one run
	stop     context.CancelCauseFunc
	wall     *time.Timer

	stdin     *os.File      // our end of the pipe; nil if there is nothing to write
	stdinDone chan struct{} // closed when Stdin is no longer read
	stdout    *pipeReader
	stderr    *pipeReader

	// For Line.
	splitter splitter
	buf      []byte
	written  atomic.Int64 // bytes on stdout and stderr
	// For Output and Chunk.
	log     outputLog
	chunks  chan chunk
	streams int // that have not ended

	wroteStderr atomic.Bool
	exited      chan struct{} // closed when the process has exited; it is a zombie then
	helpers     sync.WaitGroup
	ended       bool // wait has returned

	// Written by the helpers, to be read after they have ended.
	tail     stderrTail
	stopped  error // why the process was stopped; nil if it exited by itself
	state    *os.ProcessState
	waitErr  error
	finished time.Time
	// oomKilled says that the kernel killed the run because of Limits.TotalMemory.
	oomKilled bool
}

// start starts the process under its limits and everything that watches it. With
// session set, the process reads the requests of [Session.Do], and Stdin is not
// used.
func (c *Command) start(ctx context.Context, session bool) (*run, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c.Line != nil && c.Output != nil || c.Chunk != nil && (c.Line != nil || c.Output != nil) {
		return nil, fmt.Errorf("start %s: more than one of Line, Output and Chunk is set", c.Path)
	}
	r := &run{
		Command: c, began: time.Now(), exited: make(chan struct{}), stdinDone: make(chan struct{}),
		splitter: splitter{max: c.Limits.lineBytes()}, log: newOutputLog(c),
	}
	if err := r.spawn(session); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, whyNotStarted(err))
	}
	r.stopping, r.stop = context.WithCancelCause(ctx)
	if c.Limits.Wall > 0 {
		r.wall = time.AfterFunc(c.Limits.Wall, func() { r.stop(&limitError{OverWall, c.Limits.Wall.String()}) })
	}
	if r.unlimited != nil {
		r.stop(r.unlimited)
	}
	r.helpers.Go(r.supervise)
	r.watch()
	if !r.inChunks() {
		r.helpers.Go(r.readStderr)
		return r, nil
	}
	r.chunks, r.streams = make(chan chunk), 2
	r.helpers.Go(func() { r.sendChunks(Stdout, r.stdout) })
	r.helpers.Go(func() { r.sendChunks(Stderr, r.stderr) })
	return r, nil
}

// whyNotStarted leaves out of an error what the caller says, and says what usually is wrong with a file that is
// no program.
func whyNotStarted(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok && failed.Op == "fork/exec" {
		err = failed.Err // without the path
	}
	if errors.Is(err, syscall.ENOEXEC) {
		err = fmt.Errorf("%w: a script begins with a line such as #!/bin/sh, and other programs are built for the machine they run on", err)
	}
	return err
}

// prepare puts the limits in force.
func (r *run) prepare() error {
	l := r.Limits
	l.Memory = l.processMemory(r.descendants.controlled())
	if err := limit(r.proc.Pid, l); err != nil {
		return fmt.Errorf("limit %s: %w", r.Path, err)
	}
	if r.Started == nil {
		return nil
	}
	var err error
	if r.startTime, err = startTime(r.proc.Pid); err != nil {
		return fmt.Errorf("read start time of %s: %w", r.Path, err)
	}
	return nil
}

// begin calls Started and then lets the process read Stdin.
func (r *run) begin() error {
	select {
	case <-r.stopping.Done(): // perhaps before the limits were in force
		close(r.stdinDone)
		return nil
	default:
	}
	if r.Started != nil {
		if err := r.Started(Process{PID: r.proc.Pid, Start: r.startTime, Marker: r.descendants.marker}); err != nil {
			close(r.stdinDone)
			return err
		}
	}
	if r.Stdin == nil {
		close(r.stdinDone)
		return nil
	}
	go r.writeStdin()
	return nil
}

// supervise stops the process if there is cause to, and makes sure that nothing
// is left of it and its group. No signal is sent after the process has been
// reaped, since its id may be another's then.
func (r *run) supervise() {
	select {
	case <-r.exited:
	case <-r.stopping.Done():
		select {
		case <-r.exited: // by itself, at the same moment
		default:
			r.stopped = context.Cause(r.stopping)
			r.terminate(r.grace())
		}
	}
	signalGroup(r.proc, syscall.SIGKILL) // what it has left behind
	if r.state == nil && r.waitErr == nil {
		r.state, r.waitErr = r.proc.Wait()
	}
	r.finished = time.Now()
	awaitGroup(r.proc.Pid)
	r.oomKilled = r.descendants.oomKilled()
	r.descendants.kill(r.proc.Pid, time.Since(r.began))
	if r.stdin != nil {
		_ = r.stdin.Close() // writeStdin may have closed it
	}
	r.stdout.processEnded()
	r.stderr.processEnded()
}

// grace is how long the process has to end when it is asked to. One that starts processes or
// fills the disk without end would go on with it meanwhile.
func (r *run) grace() time.Duration {
	over := new(limitError)
	if errors.As(r.stopped, &over) && (over.reason == OverProcesses || over.reason == OverDisk) {
		return 0
	}
	if r.GraceOf != nil {
		return r.GraceOf(r.stopped)
	}
	return r.Grace
}

// terminate asks the process to end, kills it after grace, and returns when it has
// exited.
func (r *run) terminate(grace time.Duration) {
	if grace > 0 {
		signalGroup(r.proc, syscall.SIGTERM)
		over := time.NewTimer(grace)
		defer over.Stop()
		select {
		case <-r.exited:
			return
		case <-over.C:
		}
	}
	signalGroup(r.proc, syscall.SIGKILL)
	<-r.exited
}

// wait discards the rest of the output, waits until nothing is left of the process
// and frees what belongs to it.
func (r *run) wait() {
	if r.ended {
		return
	}
	r.ended = true
	r.discardOutput()
	r.helpers.Wait()
	select {
	case <-r.stdinDone:
	case <-time.After(exitWait):
	}
	if r.wall != nil {
		r.wall.Stop()
	}
	r.stop(nil)
	closeAll([]*os.File{r.stdout.f, r.stderr.f})
}

// close stops the process, if it still runs.
func (r *run) close() {
	r.stop(nil)
	r.wait()
}

// result returns how the run has ended; err is what ended the reading of its
// output. It is called after wait.
func (r *run) result(err error) error {
	cause := r.stopped
	if cause == nil {
		cause = err
	}
	over := new(limitError)
	switch {
	case errors.As(cause, &over):
		return r.exitError(over.reason, over.limit)
	case cause != nil:
		return cause
	case r.waitErr != nil:
		return fmt.Errorf("wait for %s: %w", r.Path, r.waitErr)
	case !r.state.Success():
		return r.exitError(r.exitReason())
	case r.Line != nil && len(r.splitter.rest) > 0:
		return r.Line(r.splitter.rest)
	}
	return nil
}

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// patience is how long the end of a process is waited for where something
// outside its group can delay it: a descendant that has left the group and holds
// a pipe, or a reader behind Stdin that does not return.
const patience = time.Second

// run is one process from its start to its end.
type run struct {
	*Command
	mark  string // its entry in the environment; may be empty
	began time.Time
	proc  *os.Process

	// stopping ends with the cause for which the process has to be stopped.
	stopping context.Context // lives for one run
	stop     context.CancelCauseFunc
	wall     *time.Timer

	stdin    *os.File // our end of the pipe; nil if there is nothing to write
	stdout   *outlet
	stderr   *outlet
	splitter splitter
	buf      []byte        // what lines reads into
	written  atomic.Int64  // bytes on stdout and stderr
	noisy    atomic.Bool   // there was something on stderr
	exited   chan struct{} // closed when the process has exited; it is a zombie then
	fed      chan struct{} // closed when Stdin is no longer read
	helpers  sync.WaitGroup

	over bool // end has been called

	// Written by the helpers, to be read after they have ended.
	words    lastWords
	stopped  error // why the process was stopped; nil if it exited by itself
	state    *os.ProcessState
	waitErr  error
	finished time.Time
}

// overrun is the cause of a stop for which a limit is to blame.
type overrun struct {
	reason Reason
	limit  string
}

func (o *overrun) Error() string { return fmt.Sprintf("%s (limit: %s)", o.reason, o.limit) }

// start starts the process and everything that watches it. With session set, the
// process reads the requests of [Session.Ask], and Stdin is not used.
func (c *Command) start(ctx context.Context, session bool) (*run, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r := &run{Command: c, began: time.Now(), exited: make(chan struct{}), fed: make(chan struct{})}
	if !c.Alone {
		r.mark = mark()
	}
	r.splitter.max = c.Limits.LineBytes
	if r.splitter.max <= 0 {
		r.splitter.max = defaultLineBytes
	}
	if err := r.spawn(session); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	r.stopping, r.stop = context.WithCancelCause(ctx)
	if c.Limits.Wall > 0 {
		r.wall = time.AfterFunc(c.Limits.Wall, func() { r.stop(&overrun{OverWall, c.Limits.Wall.String()}) })
	}
	limitErr := limit(r.proc.Pid, c.Limits)
	if limitErr != nil {
		r.stop(fmt.Errorf("limit %s: %w", c.Path, limitErr))
	}
	r.helpers.Go(r.supervise)
	r.helpers.Go(r.collectStderr)
	if limitErr == nil && r.Stdin != nil {
		go r.feed()
	} else {
		close(r.fed)
	}
	return r, nil
}

// spawn makes the pipes and the process.
func (r *run) spawn(session bool) error {
	var theirs, ours []*os.File
	defer func() { closeAll(theirs) }()
	stdin, err := r.stdinPipe(session)
	if err != nil {
		return err
	}
	theirs = append(theirs, stdin)
	if r.stdin != nil {
		ours = append(ours, r.stdin)
	}
	for _, o := range []**outlet{&r.stdout, &r.stderr} {
		read, write, err := os.Pipe()
		if err != nil {
			closeAll(ours)
			return err
		}
		theirs, ours = append(theirs, write), append(ours, read)
		*o = &outlet{f: read}
	}
	if err := r.spawnLocked(theirs); err != nil {
		closeAll(ours)
		return err
	}
	return nil
}

// stdinPipe returns the file the process is to read from.
func (r *run) stdinPipe(session bool) (*os.File, error) {
	if r.Stdin == nil && !session {
		return os.Open(os.DevNull)
	}
	read, write, err := os.Pipe()
	r.stdin = write
	return read, err
}

// spawnLocked starts the process on a thread that lives until the process has
// exited: the kernel takes the end of the thread that made a process for the
// death of its parent, and Go may end any thread it has not been told to keep.
func (r *run) spawnLocked(files []*os.File) error {
	env := append([]string{}, r.Env...) // nil would mean ours
	if r.mark != "" {
		env = append(env, r.mark)
	}
	attr := &os.ProcAttr{Dir: r.Dir, Env: env, Files: files, Sys: sysProcAttr()}
	started := make(chan error)
	r.helpers.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		r.proc, err = os.StartProcess(r.Path, append([]string{r.Path}, r.Args...), attr)
		started <- err
		if err == nil {
			r.state, r.waitErr = waitExit(r.proc)
			close(r.exited)
		}
	})
	err := <-started
	if err != nil {
		r.helpers.Wait()
	}
	return err
}

// feed gives Stdin to the process. That the process does not read all of it is
// no error.
func (r *run) feed() {
	defer close(r.fed)
	stdin := &remembering{r: r.Stdin}
	_, _ = io.Copy(r.stdin, stdin)
	if stdin.err != nil {
		// The end of a truncated request must not look like the end of it.
		r.stop(fmt.Errorf("read stdin for %s: %w", r.Path, stdin.err))
		return
	}
	_ = r.stdin.Close() // supervise may have been faster
}

// remembering tells an error of a reader from one of the writer it is copied to.
type remembering struct {
	r   io.Reader
	err error
}

func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF { // a wrapped EOF is a failure
		r.err = err
	}
	return n, err
}

// supervise stops the process if there is cause to, and sees to it that nothing
// is left of it and its group. No signal is sent after the process has been
// reaped, since its id may be somebody else's then.
func (r *run) supervise() {
	select {
	case <-r.exited:
	case <-r.stopping.Done():
		select {
		case <-r.exited: // by itself, at the same moment
		default:
			r.stopped = context.Cause(r.stopping)
			r.terminate()
		}
	}
	signalGroup(r.proc, syscall.SIGKILL) // what it has left behind
	if r.state == nil && r.waitErr == nil {
		r.state, r.waitErr = r.proc.Wait()
	}
	r.finished = time.Now()
	awaitGroup(r.proc.Pid)
	sweepRun(r.mark)
	if r.stdin != nil {
		_ = r.stdin.Close() // feed may have been faster
	}
	r.stdout.end()
	r.stderr.end()
}

// terminate asks the process to end, then kills it, and returns when it has
// exited.
func (r *run) terminate() {
	if r.Grace > 0 {
		signalGroup(r.proc, syscall.SIGTERM)
		grace := time.NewTimer(r.Grace)
		defer grace.Stop()
		select {
		case <-r.exited:
			return
		case <-grace.C:
		}
	}
	signalGroup(r.proc, syscall.SIGKILL)
	<-r.exited
}

// lines reads stdout to its end, or until enough says so after whole lines, and
// hands its lines to Line. The error is that of Line or an overrun.
func (r *run) lines(enough func() bool) error {
	if r.buf == nil {
		r.buf = make([]byte, 32<<10)
	}
	for !enough() || len(r.splitter.rest) > 0 {
		n, readErr := r.stdout.Read(r.buf)
		if err := r.count(n); err != nil {
			return err
		}
		if r.Line != nil {
			err := r.splitter.write(r.buf[:n], r.Line)
			if err == errLineTooLong { //nolint:errorlint // never wrapped
				return &overrun{OverOutput, fmt.Sprintf("%d bytes a line", r.splitter.max)}
			}
			if err != nil {
				return err
			}
		}
		if readErr != nil {
			return nil //nolint:nilerr // io.EOF, and never another
		}
	}
	return nil
}

// collectStderr reads stderr to its end and keeps the last words.
func (r *run) collectStderr() {
	buf := make([]byte, 4<<10)
	for {
		n, readErr := r.stderr.Read(buf)
		_, _ = r.words.Write(buf[:n]) // never fails
		if n > 0 {
			r.noisy.Store(true)
		}
		if err := r.count(n); err != nil {
			r.stop(err)
		}
		if readErr != nil {
			return
		}
	}
}

// count adds n bytes to the output and returns an overrun if that is too much.
func (r *run) count(n int) error {
	if written := r.written.Add(int64(n)); r.Limits.OutputBytes > 0 && written > r.Limits.OutputBytes {
		return &overrun{OverOutput, fmt.Sprintf("%d bytes of output", r.Limits.OutputBytes)}
	}
	return nil
}

// end waits until nothing is left of the process and frees what belongs to it.
// Stdout must be read meanwhile, or the process may never exit.
func (r *run) end() {
	if r.over {
		return
	}
	r.over = true
	_, _ = io.Copy(io.Discard, r.stdout) // its errors are the end
	r.helpers.Wait()
	select {
	case <-r.fed:
	case <-time.After(patience):
	}
	if r.wall != nil {
		r.wall.Stop()
	}
	r.stop(nil)
	closeAll([]*os.File{r.stdout.f, r.stderr.f})
}

// abandon stops the process, if it still runs.
func (r *run) abandon() {
	r.stop(nil)
	r.end()
}

// result says how the run has ended. It is called after end.
func (r *run) result(lineErr error) error {
	cause := r.stopped
	if cause == nil {
		cause = lineErr
	}
	over := new(overrun)
	switch {
	case errors.As(cause, &over):
		return r.exitError(over.reason, over.limit)
	case cause != nil:
		return cause
	case r.waitErr != nil:
		return fmt.Errorf("wait for %s: %w", r.Path, r.waitErr)
	case !r.state.Success():
		return r.exitError(r.reason())
	case r.Line != nil && len(r.splitter.rest) > 0:
		return r.Line(r.splitter.rest)
	}
	return nil
}

// reason says why a process that was not stopped has failed, and the limit that
// is to blame.
func (r *run) reason() (Reason, string) {
	signal := signalOf(r.state)
	limit := cpuLimit(r.Limits.CPU)
	// The kernel kills by the ticks that hit the process, each counted whole, and
	// reports the time it really ran, which on a busy machine is less.
	slack := max(limit/10, time.Second/2)
	if limit > 0 && signal == syscall.SIGKILL && cpuTime(r.state) > limit-slack {
		return OverCPU, fmt.Sprintf("%s of CPU time", limit)
	}
	if r.Limits.Memory > 0 && soundsLikeMemory(r.words.String()) {
		return OverMemory, fmt.Sprintf("%d bytes of memory", r.Limits.Memory)
	}
	if signal != 0 {
		return Signaled, ""
	}
	return Exited, ""
}

// cpuLimit rounds up to what the kernel can count, seconds.
func cpuLimit(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// soundsLikeMemory knows how runtimes say that they were refused memory: Go, the
// C library, C++, Python, the sanitizers.
func soundsLikeMemory(words string) bool {
	for _, phrase := range []string{"out of memory", "annot allocate memory", "bad_alloc", "MemoryError", "failed to allocate"} {
		if strings.Contains(words, phrase) {
			return true
		}
	}
	return false
}

func (r *run) exitError(reason Reason, limit string) *ExitError {
	e := &ExitError{Path: r.Path, Reason: reason, Limit: limit, Code: -1, Stderr: r.words.String()}
	if r.state != nil {
		e.Code, e.Signal = r.state.ExitCode(), signalOf(r.state)
	}
	return e
}

func (r *run) usage() Usage {
	u := Usage{Wall: r.finished.Sub(r.began)}
	if r.state != nil {
		u.CPU, u.MaxMemory = cpuTime(r.state), maxMemory(r.state)
	}
	return u
}

func cpuTime(s *os.ProcessState) time.Duration { return s.UserTime() + s.SystemTime() }

func signalOf(s *os.ProcessState) syscall.Signal {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return 0
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // pipes: nothing can be lost
	}
}

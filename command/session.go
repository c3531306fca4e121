package command

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Session is a process that answers one request after the other. The limit on
// output holds for each request, the others for the life of the process. Its
// methods are called by one goroutine at a time.
//
// It holds one thread and three goroutines until it has ended. It ends with the
// first request that is not answered in full, or with [Session.Close].
type Session struct{ r *run }

// Open starts the process and leaves it running when ctx ends. Stdin, Line, Output, Chunk
// and Limits.Wall are not used.
func (c *Command) Open(ctx context.Context) (*Session, error) {
	own := *c
	own.Stdin, own.Line, own.Output, own.Chunk, own.Limits.Wall = nil, nil, nil, nil, 0
	r, err := own.start(context.WithoutCancel(ctx), true)
	if err != nil {
		return nil, err
	}
	begun := false
	defer func() {
		if !begun { // Started has failed or panicked
			r.close()
		}
	}()
	if err := r.begin(); err != nil {
		return nil, err
	}
	begun = true
	return &Session{r}, nil
}

var errEnded = errors.New("process has ended")

// Do writes a request and passes the lines of the answer to line, which reports
// whether one was the last. What comes with the last line is passed to it as well.
// If the answer does not end so, the process is stopped, nothing is left of it,
// and the error is that of [Command.Run]. The error is nil if the process exited
// with 0 without finishing its answer; the caller must check that itself. The
// process is stopped when ctx ends, and when the answer takes longer than wall, if
// that is not 0.
func (s *Session) Do(ctx context.Context, request []byte, wall time.Duration, line func([]byte) (last bool, err error)) error {
	r := s.r
	if r.ended {
		return fmt.Errorf("send request to %s: %w", r.Path, errEnded)
	}
	answered := false
	r.Line = func(l []byte) error {
		last, err := line(l)
		answered = answered || last
		return err
	}
	r.written.Store(0)
	unhook := context.AfterFunc(ctx, func() { r.stop(context.Cause(ctx)) })
	defer unhook()
	var timer *time.Timer
	if wall > 0 {
		timer = time.AfterFunc(wall, func() { r.stop(&limitError{OverWall, wall.String()}) })
		defer timer.Stop()
	}
	reusable := false
	defer func() {
		if !reusable { // line has panicked or a stop came late, if it has not ended anyway
			r.close()
		}
	}()
	// An error is ignored: a process that does not read runs into a limit, and one
	// that has ended has an exit error, which is more precise.
	_, _ = r.stdin.Write(request)
	err := r.readLines(func() bool { return answered })
	if err == nil && answered && len(r.splitter.rest) == 0 {
		// A stop that has begun may take effect at any later time, and must not meet
		// the next request.
		reusable = unhook() && (timer == nil || timer.Stop())
		r.splitter.rest = nil // may have room for the longest line
		return nil
	}
	if err != nil {
		r.stop(err)
	}
	r.wait()
	return r.result(err)
}

// Idle reports whether the process waits for a request: it runs, was not stopped,
// and has never written to stderr.
func (s *Session) Idle() bool {
	select {
	case <-s.r.exited:
		return false
	case <-s.r.stopping.Done():
		return false
	default:
		return !s.r.wroteStderr.Load()
	}
}

// Usage returns what the process has used so far: its CPU time, and its resident
// memory in bytes; zero where that is not known. It is meant for a process that is
// [Session.Idle].
func (s *Session) Usage() (cpu time.Duration, memory int64, err error) {
	return processUsage(s.r.proc.Pid)
}

// Close stops the process and waits until nothing is left of it.
func (s *Session) Close() { s.r.close() }

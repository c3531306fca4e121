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
// It holds one thread and three goroutines until it has ended, which it does with
// the first request that is not answered in full, or with [Session.Close].
type Session struct{ r *run }

// Open starts the process and leaves it running when ctx ends. Stdin, Line and
// Limits.Wall are not used.
func (c *Command) Open(ctx context.Context) (*Session, error) {
	own := *c
	own.Stdin, own.Line, own.Limits.Wall = nil, nil, 0
	r, err := own.start(context.WithoutCancel(ctx), true)
	if err != nil {
		return nil, err
	}
	return &Session{r}, nil
}

var errEnded = errors.New("process has ended")

// Ask writes a request and hands the lines of the answer to line, which reports
// whether one was the last. What comes with the last line is handed to it as
// well. If the answer does not end so, the process is stopped, nothing is left of
// it, and the error is that of [Command.Run]. The error is nil if the process exited with
// 0 without finishing its answer; the caller must check that itself. The process is
// stopped when ctx ends, and when the answer takes longer than wall,
// if that is not 0.
func (s *Session) Ask(ctx context.Context, request []byte, wall time.Duration, line func([]byte) (last bool, err error)) error {
	r := s.r
	if r.over {
		return fmt.Errorf("ask %s: %w", r.Path, errEnded)
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
		timer = time.AfterFunc(wall, func() { r.stop(&overrun{OverWall, wall.String()}) })
		defer timer.Stop()
	}
	whole := false
	defer func() {
		if !whole { // line has panicked or a stop came late, if it is not over anyway
			r.abandon()
		}
	}()
	// A process that does not read is stopped sooner or later, and one that has
	// ended says more by that than the error.
	_, _ = r.stdin.Write(request)
	err := r.lines(func() bool { return answered })
	if err == nil && answered && len(r.splitter.rest) == 0 {
		// A stop that has begun may take effect at any later time, and must not meet
		// the next request.
		whole = unhook() && (timer == nil || timer.Stop())
		r.splitter.rest = nil // may have room for the longest line
		return nil
	}
	if err != nil {
		r.stop(err)
	}
	r.end()
	return r.result(err)
}

// Idle reports whether the process waits for a request: it runs, no one has
// stopped it, and it has never written to stderr.
func (s *Session) Idle() bool {
	select {
	case <-s.r.exited:
		return false
	case <-s.r.stopping.Done():
		return false
	default:
		return !s.r.noisy.Load()
	}
}

// Spent returns what the process has cost so far: the time it computed and its
// resident memory in bytes; zero where that is not known. It says nothing about a
// process that is not [Session.Idle].
func (s *Session) Spent() (cpu time.Duration, memory int64, err error) { return spent(s.r.proc.Pid) }

// Close stops the process and waits until nothing is left of it.
func (s *Session) Close() { s.r.abandon() }

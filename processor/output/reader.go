// Package output turns what a program writes into the log and the progress of its job.
//
// A [Reader] is given each line. It is made for any output: lines that come a million
// times a second, progress bars, bytes that are no text. What it keeps in memory is a line
// of each stream, and it waits for nothing but its Text.
//
// The package runs no program; that is what package command is for.
package output

import (
	"bufio"
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/jobs"
)

// Reader reads the lines of a program's output. Set the fields before the first line.
// [Reader.Line] and [Reader.Overwritten] are made for command.Command; they are called by
// one goroutine. Call Close when the program has ended: Reader has timers.
type Reader struct {
	// Log is given the lines of the job's log, and Progress its progress. They are called
	// one at a time, also by timers, and must not call the Reader. After 1000 lines
	// in a second Log is given only the newest 500 of the others, when the second is over,
	// and before them [jobs.LeftOut] for those that are left out.
	Log      func(line string)
	Progress func(jobs.Progress)

	// Pattern finds progress in lines. With one group, that is the part which is done: a
	// percentage, or a fraction if it has a decimal point and is at most 1, unless "%"
	// follows. With two, they are what is done and the total, as 3 and 10. It sees the
	// first 4 KiB of a line, and of what a program writes in a second the first MiB. Nil for
	// none.
	Pattern *regexp.Regexp

	// Text gets every line of both streams as it is, with a newline. Nil for none. What
	// would exceed TextLimit bytes, if that is not 0, is left out from there on, and a last
	// line says how much it was. An error of Text is returned by Line or Close. Writes are
	// buffered; what they wait for, the program waits for.
	Text      io.Writer
	TextLimit int64

	mu       sync.Mutex
	thin     thin
	progress progress
	over     [command.Stderr + 1]overwritten
	text     *bufio.Writer
	written  int64     // bytes to text
	left     int64     // bytes that were left out of it
	searched int       // bytes since second
	second   time.Time // when the current second began
	last     []byte    // of stderr
	lastOver []byte    // of stderr: progress, or written over
}

// How much is searched for progress: of a line, and of what comes in a second. A slow
// pattern searches some 15 MB/s, a program can write hundreds.
const (
	patternBytes = 4 << 10
	secondBytes  = 1 << 20
)

// Line reads a line of the output; cut means that it was longer.
//
// "::progress 3/10 text", with "30%" or "0.3" in place of "3/10" if the program likes, is
// progress and does not appear in the log. A line that Pattern matches is both.
func (r *Reader) Line(stream command.Stream, line []byte, cut bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over[stream].flush(r) // it came before
	if p, ok := parseCommand(line); ok && !cut {
		r.report(p)
		return r.keep(line, false)
	}
	last := &r.last
	r.log(line, cut)
	if p, ok := r.match(line); ok {
		p.Logged = true
		r.report(p)
		last = &r.lastOver
	}
	if stream == command.Stderr {
		note(last, line)
	}
	return r.keep(line, cut)
}

// Overwritten reads a line that the program is about to write over. The log has the newest
// of these of a stream each second, and the last. One that Pattern matches is progress and
// not in the log, which has lines of progress of its own.
func (r *Reader) Overwritten(stream command.Stream, line []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(bytes.TrimSpace(line)) == 0 { // what clears a line
		return r.keep(line, false)
	}
	if p, ok := parseCommand(line); ok { // its "\n" came later
		r.report(p)
		return r.keep(line, false)
	}
	if p, ok := r.match(line); ok {
		r.report(p)
	} else {
		r.over[stream].set(line, r)
	}
	if stream == command.Stderr {
		note(&r.lastOver, line)
	}
	return r.keep(line, false)
}

// maxLast is how much of a line Last returns, in bytes.
const maxLast = 1 << 10

// Last returns the last line of stderr that is not empty, for people: often it says why
// the program has failed. Progress, and lines that were written over, count only if there
// is nothing else.
func (r *Reader) Last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	line := r.last
	if len(line) == 0 {
		line = r.lastOver
	}
	return jobs.Clip(strings.TrimSpace(jobs.VisibleLine(valid(string(line)))), maxLast, " …")
}

// Close passes on what is still held back. The error is that of Text.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.over {
		r.over[i].flush(r)
	}
	r.flushHeld()
	r.progress.flush(r.Progress)
	return r.closeText()
}

func (r *Reader) report(p jobs.Progress) { r.progress.set(p, r) }

// match looks for progress in a line.
func (r *Reader) match(line []byte) (jobs.Progress, bool) {
	if r.Pattern == nil {
		return jobs.Progress{}, false
	}
	line = line[:min(len(line), patternBytes)]
	if r.searched += len(line) + 1; r.searched > secondBytes {
		if time.Since(r.second) < time.Second {
			return jobs.Progress{}, false
		}
		r.searched, r.second = len(line), time.Now()
	}
	return parsePattern(r.Pattern, string(line))
}

// valid returns s with U+FFFD for what is no UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// note keeps the beginning of a line that is not empty.
func note(last *[]byte, line []byte) {
	if line = bytes.TrimSpace(line); len(line) > 0 {
		*last = append((*last)[:0], line[:min(len(line), 2*maxLast)]...)
	}
}

// overEvery is the time between two lines of the log that the program has written over.
const overEvery = time.Second

// overwritten is the newest line of a stream that was written over. The Reader's mu is
// held when its methods are called.
type overwritten struct {
	newest []byte
	held   bool // newest is not in the log
	logged time.Time
	timer  *time.Timer
}

func (o *overwritten) set(line []byte, r *Reader) {
	o.newest, o.held = append(o.newest[:0], line...), true
	if o.timer != nil {
		return
	}
	wait := overEvery - time.Since(o.logged)
	if wait <= 0 {
		o.flush(r)
		return
	}
	o.timer = time.AfterFunc(wait, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		o.flush(r)
	})
}

func (o *overwritten) flush(r *Reader) {
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	if o.held {
		r.log(o.newest, false)
		o.held, o.logged = false, time.Now()
	}
}

package output

import (
	"bytes"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// How many lines of a second go into the log at once, and how much is held of the others. Both are more than
// a worker writes (package worker, lineRate).
const (
	passedLines = 1000
	heldLines   = 500
	heldBytes   = 128 << 10 // more than the longest line
	thinEvery   = time.Second
)

// thin keeps a flood of lines from costing much: a line that will not be in the log is only copied. The Reader's
// mu is held when its methods are called.
type thin struct {
	began  time.Time // of the current second
	passed int       // lines in it
	timer  *time.Timer

	held []byte // the newest lines, each after a byte that is cutLine or wholeLine and before "\n"
	left int    // lines that came before them
}

const (
	wholeLine = '-'
	cutLine   = '+'
)

// log puts a line into the log, now or within a second.
func (r *Reader) log(line []byte, cut bool) {
	t := &r.thin
	if t.timer == nil && t.passed >= passedLines {
		if wait := thinEvery - time.Since(t.began); wait > 0 {
			t.timer = time.AfterFunc(wait, func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.flushHeld()
			})
		} else {
			t.passed = 0
		}
	}
	if t.timer != nil {
		t.hold(line, cut)
		return
	}
	if t.passed == 0 {
		t.began = time.Now()
	}
	t.passed++
	r.Log(jobs.LogLine(valid(string(line)), cut))
}

// hold keeps a line, for which older ones are left out.
func (t *thin) hold(line []byte, cut bool) {
	mark := byte(wholeLine)
	if cut {
		mark = cutLine
	}
	t.held = append(append(append(t.held, mark), line...), '\n')
	if len(t.held) > 2*heldBytes { // so that bytes are moved rarely
		t.limit()
	}
}

// limit leaves out the oldest lines beyond heldLines and heldBytes.
func (t *thin) limit() {
	from := max(0, len(t.held)-heldBytes)
	if from > 0 {
		from += bytes.IndexByte(t.held[from:], '\n') + 1
	}
	keep := t.held[from:]
	for n := bytes.Count(keep, newline) - heldLines; n > 0; n-- {
		keep = keep[bytes.IndexByte(keep, '\n')+1:]
	}
	t.left += bytes.Count(t.held[:len(t.held)-len(keep)], newline)
	t.held = append(t.held[:0], keep...)
}

var newline = []byte("\n")

// flushHeld puts the lines into the log that are held, after one that tells how many were left out.
func (r *Reader) flushHeld() {
	t := &r.thin
	if t.timer == nil {
		return
	}
	t.timer.Stop()
	t.limit()
	if t.left > 0 {
		r.Log(jobs.LeftOut(t.left))
	}
	for line := range bytes.Lines(t.held) {
		r.Log(jobs.LogLine(valid(string(line[1:len(line)-1])), line[0] == cutLine))
	}
	*t = thin{held: t.held[:0]}
}

package exec

import (
	"bytes"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/jobs"
)

// How much of a program's output is looked at for the log of its job. All of that is more than a worker writes of it.
const (
	logEvery = time.Second
	logBytes = 256 << 10 // in that time; of the rest the newest chunk is looked at
	logLine  = 4 << 10   // a longer line is cut
)

// logLines gives the lines that a program writes to the log of its job. What it does with a flood costs little: it counts the lines and keeps the
// newest chunk.
type logLines struct {
	log func(line string) // nil for none

	mu      sync.Mutex
	streams [command.Stderr + 1]logStream
	began   time.Time // of logEvery
	seen    int       // bytes since then
	timer   *time.Timer
}

// logStream is one of the streams.
type logStream struct {
	rest []byte // of a line that has not ended
	skip bool   // the rest of a line that was cut
	held []byte // the newest chunk of a flood
	left int    // lines that came before it
	gap  bool   // something came between rest and held
}

// write takes what a program has written.
func (l *logLines) write(which command.Stream, p []byte) {
	if l.log == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.streams[which]
	if l.timer == nil {
		now := time.Now()
		if now.Sub(l.began) >= logEvery {
			l.began, l.seen = now, 0
		}
		if l.seen += len(p); l.seen <= logBytes {
			s.split(p, l.log)
			return
		}
		l.timer = time.AfterFunc(logEvery-now.Sub(l.began), l.flush)
	}
	s.hold(p)
}

// flush gives what is held to the log.
func (l *logLines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushHeld()
}

func (l *logLines) flushHeld() {
	if l.timer == nil {
		return
	}
	l.timer.Stop()
	l.timer, l.began, l.seen = nil, time.Now(), 0
	for i := range l.streams {
		l.streams[i].flush(l.log)
	}
}

// close gives all that is left to the log.
func (l *logLines) close() {
	if l.log == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushHeld()
	for i := range l.streams {
		if s := &l.streams[i]; len(s.rest) > 0 {
			s.split(newline, l.log)
		}
	}
}

var newline, carriageReturn = []byte("\n"), []byte("\r")

// split gives the lines of p to the log. The last one waits for its end.
func (s *logStream) split(p []byte, log func(string)) {
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, newline)
		p = rest
		if !s.skip {
			s.add(line, log)
		}
		if !ended {
			return
		}
		if !s.skip {
			log(validText(bytes.TrimSuffix(s.rest, carriageReturn)))
		}
		s.rest, s.skip = s.rest[:0], false
	}
}

// add adds to the line that has not ended. Of one that is written over again and again the newest counts.
func (s *logStream) add(part []byte, log func(string)) {
	i := bytes.LastIndexByte(bytes.TrimSuffix(part, carriageReturn), '\r')
	if i >= 0 || len(part) > 0 && bytes.HasSuffix(s.rest, carriageReturn) {
		s.rest, part = s.rest[:0], part[i+1:]
	}
	s.rest = append(s.rest, part[:min(len(part), logLine+1-len(s.rest))]...)
	if len(s.rest) > logLine {
		log(jobs.LogLine(validText(s.rest[:logLine]), true))
		s.rest, s.skip = s.rest[:0], true
	}
}

// hold keeps a chunk in place of the one before it.
func (s *logStream) hold(p []byte) {
	if len(s.held) > 0 {
		s.left += bytes.Count(s.held, newline)
		s.gap = true
	}
	s.held = append(s.held[:0], p...)
}

// flush gives the chunk that is held to the log. What it begins with is the end of a line whose beginning is not there.
func (s *logStream) flush(log func(string)) {
	p := s.held
	if s.gap {
		s.rest, s.skip = s.rest[:0], true
		if _, after, ended := bytes.Cut(p, newline); ended {
			p, s.skip = after, false
			s.left++
		}
		if s.left > 0 {
			log(jobs.LeftOut(s.left))
		}
	}
	s.split(p, log)
	s.held, s.left, s.gap = s.held[:0], 0, false
}

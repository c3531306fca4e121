package exec

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/command"
)

// How much of a stream a result has: its beginning and its end.
const (
	headBytes = 64 << 10
	tailBytes = 192 << 10
)

// stream keeps what a program writes to stdout or stderr: the beginning and the end in memory and, if that is not all, the
// whole in a file.
type stream struct {
	head  []byte
	tail  []byte // a ring once it is full
	at    int    // where the oldest byte of a full ring is
	total int64
	file  *os.File // nil while all is in memory
	kept  int64    // bytes in file
}

// whole reports whether all is in memory.
func (s *stream) whole() bool { return s.total == int64(len(s.head)+len(s.tail)) }

// keep keeps p in memory.
func (s *stream) keep(p []byte) {
	s.total += int64(len(p))
	n := min(len(p), headBytes-len(s.head))
	s.head, p = append(s.head, p[:n]...), p[n:]
	p = p[max(0, len(p)-tailBytes):]
	for len(p) > 0 {
		if room := tailBytes - len(s.tail); room > 0 {
			n := min(len(p), room)
			s.tail, p = append(s.tail, p[:n]...), p[n:]
			continue
		}
		n := copy(s.tail[s.at:], p)
		s.at, p = (s.at+n)%tailBytes, p[n:]
	}
}

// text is the stream as a result has it. What is no UTF-8 is replaced.
func (s *stream) text() string {
	if s.whole() {
		return validText(append(s.head, s.tail...))
	}
	tail := append(append(make([]byte, 0, len(s.tail)), s.tail[s.at:]...), s.tail[:s.at]...)
	head, tail := cutLast(s.head), cutFirst(tail)
	omitted := fmt.Sprintf("\n[%d bytes omitted]\n", s.total-int64(len(head)+len(tail)))
	return validText(head) + omitted + validText(tail)
}

// validText replaces each byte that is no UTF-8 by U+FFFD, as JSON encoders do.
func validText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string(bytes.Runes(b))
}

// cutLast is b without a character that is cut off at its end.
func cutLast(b []byte) []byte {
	for i := 1; i < min(utf8.UTFMax, len(b)+1); i++ {
		if last := b[len(b)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// cutFirst is b without the rest of a character at its beginning.
func cutFirst(b []byte) []byte {
	for i := range min(utf8.UTFMax, len(b)) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// exact reports whether the text is exactly what the program wrote.
func (s *stream) exact() bool { return s.whole() && utf8.Valid(append(s.head, s.tail...)) }

// size is how much was kept.
func (s *stream) size() int64 {
	if s.file != nil {
		return s.kept
	}
	return int64(len(s.head) + len(s.tail))
}

// open returns all that was kept.
func (s *stream) open() io.Reader {
	if s.file != nil {
		return io.NewSectionReader(s.file, 0, s.kept)
	}
	return io.MultiReader(bytes.NewReader(s.head), bytes.NewReader(s.tail))
}

// outputs are the two streams of a program. They are used by one goroutine.
type outputs struct {
	stdout, stderr stream
	limit          int64 // bytes of both in files
	truncate       bool
	temp           func() (*os.File, error) // makes a file
	cut            bool                     // some was dropped
	lines          logLines
}

// outputLimitError stops a program that writes too much.
type outputLimitError struct{ limit int64 }

func (e *outputLimitError) Error() string {
	return fmt.Sprintf("it wrote more than %d bytes to stdout and stderr", e.limit)
}

// write keeps what was read from a stream. Its errors are an [outputLimitError] and those of files.
func (o *outputs) write(which command.Stream, p []byte) error {
	o.lines.write(which, p)
	s := &o.stdout
	if which == command.Stderr {
		s = &o.stderr
	}
	if err := o.spool(s, p); err != nil {
		return err
	}
	s.keep(p)
	if o.stdout.total+o.stderr.total > o.limit {
		o.cut = true
		if !o.truncate {
			return &outputLimitError{o.limit}
		}
	}
	return nil
}

// spool writes p to the file of a stream once memory does not hold all of it.
func (o *outputs) spool(s *stream, p []byte) (err error) {
	if s.file == nil {
		if s.total+int64(len(p)) <= headBytes+tailBytes {
			return nil
		}
		if s.file, err = o.temp(); err != nil {
			return err
		}
		before := append(append(make([]byte, 0, len(s.head)+len(s.tail)), s.head...), s.tail...)
		if err := o.toFile(s, before); err != nil {
			return err
		}
	}
	return o.toFile(s, p)
}

func (o *outputs) toFile(s *stream, p []byte) error {
	n, err := s.file.Write(p[:max(0, min(int64(len(p)), o.limit-o.stdout.kept-o.stderr.kept))])
	s.kept += int64(n)
	return err
}

// close deletes the files, and gives the last lines to the log.
func (o *outputs) close() {
	o.lines.close()
	for _, s := range []*stream{&o.stdout, &o.stderr} {
		if s.file != nil {
			_ = s.file.Close() // it was read already
			_ = os.Remove(s.file.Name())
		}
	}
}

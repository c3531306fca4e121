package command

import (
	"bytes"
	"errors"
)

// errLineTooLong is returned by splitter for a line over the limit.
var errLineTooLong = errors.New("line too long")

// splitter cuts a stream into lines of at most max bytes without their newline.
type splitter struct {
	max  int
	rest []byte // an unfinished line; never longer than max
}

// write calls line for every line that p finishes and keeps the rest. The lines
// are valid until write returns. It stops at the first error.
func (s *splitter) write(p []byte, line func([]byte) error) error {
	for {
		i := bytes.IndexByte(p, '\n')
		end := i
		if i < 0 {
			end = len(p)
		}
		if len(s.rest)+end > s.max {
			return errLineTooLong
		}
		if i < 0 {
			s.rest = append(s.rest, p...)
			return nil
		}
		whole := p[:i]
		if len(s.rest) > 0 {
			s.rest = append(s.rest, whole...)
			whole = s.rest
		}
		if err := line(whole); err != nil {
			return err
		}
		s.rest, p = s.rest[:0], p[i+1:]
	}
}

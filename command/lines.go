package command

import (
	"bytes"
	"errors"
)

// errLineTooLong is returned by splitter for a line over the limit.
var errLineTooLong = errors.New("line too long")

// splitter cuts a stream into lines without their line ends. The lines do not
// depend on how the stream is divided among the calls of write.
type splitter struct {
	max int // bytes of the longest line
	// lenient is for logs: "\r" and "\r\n" end a line as "\n" does, and a line
	// that is too long is cut after max bytes. Otherwise it is an error.
	lenient bool

	rest     []byte // an unfinished line; never longer than max
	skipping bool   // the line was cut: its bytes are dropped up to its end
	afterCR  bool   // the last byte was "\r": "\n" belongs to the same line end
	bareCR   bool   // the line that is being passed ends in "\r", and no "\n" has come with it
}

// write calls line for every line that p finishes or makes too long, and keeps
// the rest. The lines are valid until line returns. It stops at the first error.
func (s *splitter) write(p []byte, line func(line []byte, cut bool) error) error {
	left := len(p) + 1 // see lineEnd
	for len(p) > 0 {
		if s.afterCR {
			s.afterCR = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		end := s.lineEnd(p, &left)
		part := p
		if end >= 0 {
			part = p[:end]
			s.bareCR = p[end] == '\r' && (end+1 == len(p) || p[end+1] != '\n')
		}
		if !s.skipping {
			if err := s.add(part, end >= 0, line); err != nil {
				return err
			}
		}
		if end < 0 {
			return nil
		}
		s.skipping = false
		s.afterCR = p[end] == '\r'
		p = p[end+1:]
	}
	return nil
}

// lineEnd returns the index of the first line end in p, -1 if there is none. left is how much of p there is from the
// first "\n" on, so that it is searched for once, however many "\r" come before it: 0 if there is none, and more than
// p has if it is not known.
func (s *splitter) lineEnd(p []byte, left *int) int {
	if *left > len(p) {
		*left = 0
		if newline := bytes.IndexByte(p, '\n'); newline >= 0 {
			*left = len(p) - newline
		}
	}
	newline := len(p) - *left
	if s.lenient {
		if end := bytes.IndexByte(p[:newline], '\r'); end >= 0 {
			return end
		}
	}
	if *left == 0 {
		return -1
	}
	return newline
}

// add appends a part of a line, which may be its last.
func (s *splitter) add(part []byte, last bool, line func(line []byte, cut bool) error) error {
	cut := len(s.rest)+len(part) > s.max
	if cut && !s.lenient {
		return errLineTooLong
	}
	if cut {
		part = part[:s.max-len(s.rest)]
	}
	if !last && !cut {
		s.rest = append(s.rest, part...)
		return nil
	}
	whole := part
	if len(s.rest) > 0 {
		s.rest = append(s.rest, part...)
		whole = s.rest
	}
	s.skipping = cut
	err := line(whole, cut)
	s.rest = s.rest[:0]
	return err
}

// flush calls line for an unfinished line, if there is one.
func (s *splitter) flush(cut bool, line func(line []byte, cut bool) error) error {
	if len(s.rest) == 0 {
		return nil
	}
	s.skipping, s.bareCR = cut, false
	err := line(s.rest, cut)
	s.rest = s.rest[:0]
	return err
}

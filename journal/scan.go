package journal

import (
	"bytes"
	"errors"
	"io"
)

const (
	readAhead = 256 << 10
	diskBlock = 4096 // the least that a disk fails to read, in bytes
)

// A scanner reads frames, and finds the next one after damage. It holds at most
// one record and readAhead bytes in memory.
type scanner struct {
	r    io.ReaderAt
	size int64 // of what is read
	salt uint32

	at     int64 // the position of store[lo] in what is read
	store  []byte
	lo, hi int

	unreadable error // the last failure of r: frames may have been skipped
}

// A frame is what a scanner finds.
type frame struct {
	kind   byte
	record []byte // until the next call
	at     int64
	end    int64
}

// next returns the next whole frame, or false at the end.
func (s *scanner) next() (frame, bool) {
	for {
		if f, ok := s.frame(); ok {
			return f, true
		}
		if !s.skip() {
			return frame{}, false
		}
	}
}

// frame takes the frame that begins here, if one does.
func (s *scanner) frame() (frame, bool) {
	h, ok := parseHeader(s.peek(headerSize), s.salt)
	if !ok || int64(headerSize+h.length) > s.size-s.at {
		return frame{}, false
	}
	b := s.peek(headerSize + h.length)
	if len(b) < headerSize+h.length || sum(s.salt, b[4:8], b[headerSize:]) != h.sum {
		return frame{}, false
	}
	f := frame{kind: h.kind, record: b[headerSize:], at: s.at, end: s.at + int64(len(b))}
	s.drop(len(b))
	return f, true
}

// skip advances to where the next frame may begin, by at least one byte, or
// returns false at the end. It searches also inside a record whose header is good:
// bytes may be missing.
func (s *scanner) skip() bool {
	s.drop(min(1, len(s.peek(1))))
	for {
		b := s.peek(max(len(frameMagic), s.hi-s.lo))
		if i := bytes.Index(b, []byte(frameMagic)); i >= 0 {
			s.drop(i)
			return true
		}
		if len(b) < len(frameMagic) { // the end
			s.drop(len(b))
			return false
		}
		s.drop(len(b) - len(frameMagic) + 1)
	}
}

func (s *scanner) drop(n int) {
	s.lo += n
	s.at += int64(n)
}

// peek returns the next n bytes, or as many as there are.
func (s *scanner) peek(n int) []byte {
	for s.hi-s.lo < n && s.at+int64(s.hi-s.lo) < s.size {
		s.fill(n)
	}
	return s.store[s.lo:min(s.hi, s.lo+n)]
}

// fill reads at least one byte, or sets size if the file ends earlier. A block
// that cannot be read becomes zeros, which are no frame.
func (s *scanner) fill(n int) {
	if n = max(n, readAhead); s.lo+n > len(s.store) {
		store := s.store
		if n > len(store) {
			store = make([]byte, n)
		}
		s.lo, s.hi = 0, copy(store, s.store[s.lo:s.hi])
		s.store = store
	}
	from := s.at + int64(s.hi-s.lo)
	into := s.store[s.hi:min(int64(len(s.store)), int64(s.hi)+s.size-from)]
	got, err := s.r.ReadAt(into, from)
	switch {
	case got > 0:
	case err == nil || errors.Is(err, io.EOF):
		s.size = from
	default:
		s.unreadable = err
		got = min(len(into), int(diskBlock-from%diskBlock))
		clear(into[:got])
	}
	s.hi += got
}

package filter

import "io"

// RunLength expands runs: a length byte n below 128 is followed by n+1 bytes
// to copy, above 128 by one byte to repeat 257−n times; 128 ends the data.
func RunLength(src []byte, limit int) ([]byte, error) {
	// The runs are measured first: growing the result as it comes would take
	// some times its size.
	size := 0
	for rest := src; len(rest) > 0 && size < limit; {
		var r run
		r, rest = nextRun(rest)
		size += r.size()
	}
	out := make([]byte, 0, min(size, limit))
	for len(src) > 0 {
		if len(src) == 1 && src[0] > 128 {
			return out, io.ErrUnexpectedEOF
		}
		var r run
		r, src = nextRun(src)
		for range r.times {
			n := min(len(r.bytes), room(out, limit))
			if out = append(out, r.bytes[:n]...); n < len(r.bytes) {
				return out, ErrTooLong
			}
		}
	}
	return out, nil
}

// run is bytes to be written some times.
type run struct {
	bytes []byte
	times int
}

func (r run) size() int { return len(r.bytes) * r.times }

// nextRun returns the run that src begins with, and what follows it; src must
// not be empty.
func nextRun(src []byte) (r run, rest []byte) {
	n := int(src[0])
	src = src[1:]
	if n == 128 {
		return run{}, nil
	}
	times, length := 1, n+1
	if n > 128 {
		times, length = 257-n, 1
	}
	length = min(length, len(src))
	return run{src[:length], times}, src[length:]
}

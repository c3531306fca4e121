package filter

import (
	"bytes"
	"io"
)

// RunLength expands runs: a length byte n below 128 is followed by n+1 bytes
// to copy, above 128 by one byte to repeat 257−n times; 128 ends the data.
func RunLength(src []byte, limit int) ([]byte, error) {
	var out []byte
	for len(src) > 0 {
		n := int(src[0])
		src = src[1:]
		var run []byte
		switch {
		case n == 128:
			return out, nil
		case n < 128:
			run = src[:min(n+1, len(src))]
			src = src[len(run):]
		case len(src) == 0:
			return out, io.ErrUnexpectedEOF
		default:
			run = bytes.Repeat(src[:1], 257-n)
			src = src[1:]
		}
		if len(run) > room(out, limit) {
			return append(out, run[:room(out, limit)]...), ErrTooLong
		}
		out = append(out, run...)
	}
	return out, nil
}

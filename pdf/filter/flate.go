package filter

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"sync"
)

// inflaters holds idle decompressors; each owns about 40 KB, more than most
// content streams are long.
var inflaters = sync.Pool{New: func() any { return flate.NewReader(nil) }}

// Flate decompresses a zlib stream. The checksum is not looked at, because
// damaged files are read as far as they go, and a stream without the two-byte
// zlib header is read as bare deflate data, because some writers forget it.
func Flate(src []byte, limit int) ([]byte, error) {
	for len(src) > 0 && (src[0] == '\r' || src[0] == '\n') {
		src = src[1:] // an end of line too many after the word "stream"
	}
	if len(src) == 0 {
		return nil, nil
	}
	if len(src) < 2 {
		return nil, fmt.Errorf("inflate stream: %w", io.ErrUnexpectedEOF)
	}
	var out []byte
	err := errors.New("no zlib header")
	if src[0]&0x0f == 8 {
		out, err = inflate(src[2:], limit)
	}
	if len(out) == 0 && err != nil {
		if bare, bareErr := inflate(src, limit); len(bare) > 0 {
			out, err = bare, bareErr
		}
	}
	if err != nil && !errors.Is(err, ErrTooLong) {
		err = fmt.Errorf("inflate stream: %w", err)
	}
	return out, err
}

func inflate(src []byte, limit int) ([]byte, error) {
	r := inflaters.Get().(io.ReadCloser)
	defer inflaters.Put(r)
	if err := r.(flate.Resetter).Reset(bytes.NewReader(src), nil); err != nil {
		return nil, err
	}
	// Text compresses about four to one; the first guess is capped so that a
	// large damaged stream does not reserve what it will never fill.
	out := make([]byte, 0, max(min(len(src)*4, 1<<20, limit), 512))
	for {
		if len(out) == cap(out) {
			out = append(out, 0)[:len(out)]
		}
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if len(out) > limit {
			return out[:limit], ErrTooLong
		}
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
	}
}

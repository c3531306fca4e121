package filter

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"slices"
	"sync"
)

// inflaters holds idle decompressors; each owns about 40 KB, more than most
// content streams are long.
var inflaters = sync.Pool{New: func() any { return flate.NewReader(nil) }}

var (
	// errChecksum says that what was decompressed is not what was compressed.
	errChecksum = errors.New("wrong checksum")
	errHeader   = errors.New("no zlib header")
)

// Flate decompresses a zlib stream. With a wrong checksum it returns all of the
// data and an error; one that is missing is no error, and a stream without the two-byte
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
	out, rest, err := inflate(src[2:], limit)
	right := len(rest) >= 4 && binary.BigEndian.Uint32(rest) == adler32.Checksum(out)
	switch header := src[0]&0x0f == 8; {
	case !header && right:
		err = errHeader
	case !header:
		out, err = nil, errHeader
	case err == nil && len(rest) >= 4 && !right:
		err = errChecksum
	}
	if len(out) == 0 && err != nil {
		if bare, rest, bareErr := inflate(src, limit); len(bare) > 0 {
			if out, err = bare, bareErr; err == nil && len(rest) > 4 {
				err = errHeader // more bytes follow, so this may be other data that happens to inflate
			}
		}
	}
	if err != nil && !errors.Is(err, ErrTooLong) {
		err = fmt.Errorf("inflate stream: %w", err)
	}
	return out, err
}

// grown is the size up to which the result grows as it comes. A larger one is
// measured first: growing it would take some times its size.
const grown = 1 << 20

// inflate returns the decompressed data and what follows the compressed.
func inflate(src []byte, limit int) (out, rest []byte, err error) {
	in := bytes.NewReader(src)
	r := inflaters.Get().(io.ReadCloser)
	defer inflaters.Put(r)
	if err := r.(flate.Resetter).Reset(in, nil); err != nil {
		return nil, nil, err
	}
	// Text compresses about four to one; the first guess is capped so that a
	// large damaged stream does not reserve what it will never fill.
	out = make([]byte, 0, max(min(len(src)*4, grown, limit), 512))
	for {
		switch {
		case len(out) < cap(out):
		case len(out) < grown:
			out = slices.Grow(out, min(len(out), grown-len(out)))
		default:
			all := make([]byte, len(out), inflatedSize(src, limit)+1)
			copy(all, out)
			out = all
		}
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if len(out) > limit {
			return out[:limit], nil, ErrTooLong
		}
		if err == io.EOF {
			return out, src[len(src)-in.Len():], nil
		}
		if err != nil {
			return out, nil, err
		}
	}
}

// inflatedSize returns how many bytes src holds, at most one more than limit.
func inflatedSize(src []byte, limit int) int {
	r := inflaters.Get().(io.ReadCloser)
	defer inflaters.Put(r)
	if err := r.(flate.Resetter).Reset(bytes.NewReader(src), nil); err != nil {
		return 0
	}
	n, _ := io.Copy(io.Discard, io.LimitReader(r, int64(limit)+1)) // what breaks off counts as far as it goes
	return int(n)
}

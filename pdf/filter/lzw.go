package filter

import "errors"

const (
	lzwClear    = 256
	lzwEnd      = 257
	lzwMaxCodes = 4096
)

// lzwEntry is one string of the code table: the string of code prev, and one
// more byte.
type lzwEntry struct {
	prev  uint16
	first byte
	last  byte
	size  uint16
}

// LZW decompresses src. With early the code width grows one code sooner than
// it must, which is PDF's default (EarlyChange 1).
func LZW(src []byte, early bool, limit int) ([]byte, error) {
	// The first pass measures: growing the result as it comes would take some
	// times its size.
	size, err := unpackLZW(src, early, limit, nil)
	out := make([]byte, size)
	_, _ = unpackLZW(src, early, limit, out) // as the first time
	return out, err
}

// unpackLZW writes what src holds to out, unless that is nil, and returns its
// size.
func unpackLZW(src []byte, early bool, limit int, out []byte) (size int, err error) {
	var table [lzwMaxCodes]lzwEntry
	for c := range 256 {
		table[c] = lzwEntry{first: byte(c), last: byte(c), size: 1}
	}
	change := 0
	if early {
		change = 1
	}
	var (
		next  = lzwEnd + 1
		width = 9
		prev  = -1
		acc   uint32
		bits  int
	)
	for _, b := range src {
		acc, bits = acc<<8|uint32(b), bits+8
		if bits < width {
			continue
		}
		bits -= width
		code := int(acc>>bits) & (1<<width - 1)
		switch {
		case code == lzwClear:
			next, width, prev = lzwEnd+1, 9, -1
			continue
		case code == lzwEnd:
			return size, nil
		case code > next || code == next && (prev < 0 || next == lzwMaxCodes):
			return size, errors.New("lzw: code out of range")
		}
		if prev >= 0 && next < lzwMaxCodes {
			e := lzwEntry{prev: uint16(prev), first: table[prev].first, size: table[prev].size + 1}
			e.last = e.first // code == next: the string that is just being made
			if code < next {
				e.last = table[code].first
			}
			table[next] = e
			next++
		}
		prev = code
		if int(table[code].size) > limit-size {
			return size, ErrTooLong
		}
		start := size
		size += int(table[code].size)
		if out != nil {
			for i, c := size-1, code; i >= start; i-- {
				out[i] = table[c].last
				c = int(table[c].prev)
			}
		}
		if next+change >= 1<<width && width < 12 {
			width++
		}
	}
	return size, nil
}

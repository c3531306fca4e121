package filter

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// ASCIIHex decodes pairs of hexadecimal digits up to ">". Anything else is
// skipped, and a missing last digit counts as 0.
func ASCIIHex(src []byte, limit int) ([]byte, error) {
	out := make([]byte, 0, min(len(src)/2+1, limit))
	high := -1
	for _, c := range src {
		if c == '>' {
			break
		}
		v := HexDigit(c)
		if v < 0 {
			continue
		}
		if high < 0 {
			high = v
			continue
		}
		if room(out, limit) < 1 {
			return out, ErrTooLong
		}
		out, high = append(out, byte(high<<4|v)), -1
	}
	if high >= 0 && room(out, limit) > 0 {
		out = append(out, byte(high<<4))
	}
	return out, nil
}

// HexDigit returns the value of a hexadecimal digit, or -1 for any other byte.
func HexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// ASCII85 decodes base-85 groups up to "~>". Bytes outside the alphabet are
// skipped and reported once, at the end.
func ASCII85(src []byte, limit int) ([]byte, error) {
	var (
		group [5]byte
		n     int
		bad   bool
	)
	if len(src) >= 2 && src[0] == '<' && src[1] == '~' {
		src = src[2:] // the mark of the btoa format, which PDF does not want
	}
	if end := bytes.IndexByte(src, '~'); end >= 0 {
		src = src[:end]
	}
	zeros := bytes.Count(src, []byte("z"))
	out := make([]byte, 0, min(4*zeros+(len(src)-zeros)*4/5+4, limit))
	for _, c := range src {
		if room(out, limit) < 4 {
			return out, ErrTooLong
		}
		switch {
		case isSpace(c):
			continue
		case c == 'z' && n == 0:
			out = append(out, 0, 0, 0, 0)
			continue
		case c < '!' || c > 'u':
			bad = true
			continue
		}
		group[n] = c - '!'
		if n++; n == 5 {
			out, n = binary.BigEndian.AppendUint32(out, value85(group)), 0
		}
	}
	if n > 1 {
		for k := n; k < 5; k++ {
			group[k] = 84
		}
		var last [4]byte
		binary.BigEndian.PutUint32(last[:], value85(group))
		out = append(out, last[:n-1]...)
	}
	if bad {
		return out, errors.New("ascii85: bytes outside the alphabet")
	}
	return out, nil
}

// value85 wraps around for groups above 2³²−1, which no encoder writes.
func value85(group [5]byte) uint32 {
	var v uint32
	for _, digit := range group {
		v = v*85 + uint32(digit)
	}
	return v
}

package httpd

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// text checks a string and returns what is between its quotes.
func (s *scanner) text() (raw []byte, escaped bool, err *BodyError) {
	s.pos++
	for start := s.pos; s.pos < len(s.data); {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return s.data[start : s.pos-1], escaped, nil
		case c < ' ':
			return nil, false, s.bad("control characters in a string must be escaped")
		case c == '\\':
			escaped = true
			if n := escape(s.data[s.pos:]); n > 0 {
				s.pos += n
				continue
			}
			return nil, false, s.bad("bad escape in a string; a surrogate \\uD800 to \\uDFFF must be one of a pair")
		default:
			s.pos++
		}
	}
	return nil, false, s.unexpected("the end of a string")
}

// escape returns the length of the escape sequence, or pair of them, that b
// begins with, and 0 when it is none.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] != 'u' {
		if bytes.IndexByte([]byte(`"\/bfnrt`), b[1]) < 0 {
			return 0
		}
		return 2
	}
	switch r, ok := hex4(b); {
	case !ok:
		return 0
	case !utf16.IsSurrogate(r):
		return 6
	default:
		low, ok := hex4(b[6:])
		if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
			return 0
		}
		return 12
	}
}

// hex4 returns the number of a \uXXXX at the beginning of b.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unquote resolves the escapes of a string that was checked.
func unquote(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		n := escape(raw[i:])
		switch n {
		case 2:
			c := raw[i+1]
			if at := bytes.IndexByte([]byte("bfnrt"), c); at >= 0 {
				c = "\b\f\n\r\t"[at]
			}
			out = append(out, c)
		case 6:
			r, _ := hex4(raw[i:])
			out = utf8.AppendRune(out, r)
		default:
			high, _ := hex4(raw[i:])
			low, _ := hex4(raw[i+6:])
			out = utf8.AppendRune(out, utf16.DecodeRune(high, low))
		}
		i += n
	}
	return out
}

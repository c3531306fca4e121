package filter

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// text reads a string in double quotes. want is what it is.
func (p *parser) text(want string) (string, error) {
	if p.at >= len(p.s) || p.s[p.at] != '"' {
		return "", p.want(want)
	}
	start := p.at
	p.at++
	var b strings.Builder
	for p.at < len(p.s) {
		r, size := utf8.DecodeRuneInString(p.s[p.at:])
		switch {
		case r == '"':
			p.at++
			p.skipSpace()
			return b.String(), nil
		case r == '\\':
			escaped, err := p.escape()
			if err != nil {
				return "", err
			}
			b.WriteRune(escaped)
		case r == utf8.RuneError && size == 1:
			return "", fmt.Errorf("byte %d: not UTF-8", p.at)
		case isControl(r):
			return "", fmt.Errorf(`byte %d: got %q, want it as an escape (such as \n or \x07)`, p.at, r)
		default:
			b.WriteRune(r)
			p.at += size
		}
	}
	return "", fmt.Errorf("byte %d: got the end, want the double quote that closes the one at byte %d", p.at, start)
}

// simpleEscapes are the characters behind a backslash that stand for one
// character, in the order of what they stand for.
const (
	simpleEscapes = "abfnrtv\\\"'`?"
	simpleMeaning = "\a\b\f\n\r\t\v\\\"'`?"
)

// escape reads from a backslash on. An escape by number means a character, not
// a byte: \xe9 is é.
func (p *parser) escape() (rune, error) {
	rest := p.s[p.at+1:]
	if rest == "" {
		p.at++
		return 0, p.want("the rest of an escape")
	}
	if i := strings.IndexByte(simpleEscapes, rest[0]); i >= 0 {
		p.at += 2
		return rune(simpleMeaning[i]), nil
	}
	switch rest[0] {
	case 'x', 'X':
		return p.number(2, 2, 16)
	case 'u':
		return p.number(2, 4, 16)
	case 'U':
		return p.number(2, 8, 16)
	case '0', '1', '2', '3':
		return p.number(1, 3, 8)
	default:
		return 0, fmt.Errorf("byte %d: unknown escape, want one of %s, x, u, U or three octal digits", p.at, strings.Join(strings.Split(simpleEscapes, ""), " "))
	}
}

// number reads an escape of skip bytes and then this many digits.
func (p *parser) number(skip, digits, base int) (rune, error) {
	from := p.at + skip
	if from+digits <= len(p.s) {
		n, err := strconv.ParseUint(p.s[from:from+digits], base, 32)
		if err == nil && n <= utf8.MaxRune && utf8.ValidRune(rune(n)) {
			p.at = from + digits
			return rune(n), nil
		}
	}
	return 0, fmt.Errorf("byte %d: bad escape, want %d digits of base %d that are a character", p.at, digits, base)
}

package protofile

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A kind is what a token is.
type kind uint8

const (
	end kind = iota + 1
	ident
	integer
	float
	text
	symbol
)

// A token is a word of the language. Comments and white space are none.
type token struct {
	kind   kind
	pos    int     // offset of its first byte
	text   string  // as it is written; for text, what it stands for
	number uint64  // of an integer
	float  float64 // of a float
}

// is reports whether t is the keyword or the symbol s.
func (t token) is(s string) bool {
	return (t.kind == ident || t.kind == symbol) && t.text == s
}

// describe returns a token as errors name it.
func (t token) describe() string {
	switch t.kind {
	case end:
		return "the end"
	case text:
		return "a string"
	default:
		return strconv.Quote(t.text)
	}
}

// A lexer cuts a definition into tokens.
type lexer struct {
	source string
	offset int
}

// lex returns the next token.
func (l *lexer) lex() token {
	l.skipSpace()
	start := l.offset
	if start == len(l.source) {
		return token{kind: end, pos: start}
	}
	c := l.source[start]
	switch {
	case isLetter(c):
		for l.offset < len(l.source) && (isLetter(l.source[l.offset]) || isDigit(l.source[l.offset])) {
			l.offset++
		}
		return token{kind: ident, pos: start, text: l.source[start:l.offset]}
	case isDigit(c), c == '.' && isDigit(l.at(1)):
		return l.lexNumber()
	case c == '"' || c == '\'':
		return l.lexText(c)
	case strings.IndexByte(";,.:=-+(){}[]<>/", c) >= 0:
		l.offset++
		return token{kind: symbol, pos: start, text: l.source[start:l.offset]}
	default:
		r, _ := utf8.DecodeRuneInString(l.source[start:])
		fail(start, "invalid character %q", r)
		return token{}
	}
}

// at returns the byte that is n behind the offset, or 0.
func (l *lexer) at(n int) byte {
	if l.offset+n < len(l.source) {
		return l.source[l.offset+n]
	}
	return 0
}

// skipSpace skips white space and comments.
func (l *lexer) skipSpace() {
	for l.offset < len(l.source) {
		switch c := l.source[l.offset]; {
		case strings.IndexByte("\n\r\t\f\v ", c) >= 0:
			l.offset++
		case c == '/' && (l.at(1) == '/' || l.at(1) == '*'):
			l.skipComment()
		default:
			return
		}
	}
}

func (l *lexer) skipComment() {
	start, closing := l.offset, "\n"
	if l.at(1) == '*' {
		closing = "*/"
	}
	n := strings.Index(l.source[start+2:], closing)
	switch {
	case n >= 0:
		l.offset = start + 2 + n + len(closing)
	case closing == "\n":
		l.offset = len(l.source)
	default:
		fail(start, "the comment does not end")
	}
	if n := strings.IndexByte(l.source[start:l.offset], 0); n >= 0 {
		fail(start+n, "invalid character %q", rune(0))
	}
}

// lexNumber reads everything that may be in a number, so that "1x" is an error and
// not two tokens.
func (l *lexer) lexNumber() token {
	start := l.offset
	for l.offset < len(l.source) {
		c := l.source[l.offset]
		isSign := (c == '+' || c == '-') && l.offset > start && (l.source[l.offset-1]|0x20) == 'e'
		if !isLetter(c) && !isDigit(c) && c != '.' && !isSign {
			break
		}
		l.offset++
	}
	t := token{kind: integer, pos: start, text: l.source[start:l.offset]}
	digits, base := t.text, 10
	switch {
	case strings.HasPrefix(digits, "0x"), strings.HasPrefix(digits, "0X"):
		digits, base = digits[2:], 16
	case strings.ContainsAny(digits, ".eE"):
		return t.asFloat()
	case digits[0] == '0':
		base = 8
	}
	var err error
	t.number, err = strconv.ParseUint(digits, base, 64)
	switch {
	case err == nil:
		return t
	case base == 10 && errors.Is(err, strconv.ErrRange):
		return t.asFloat()
	default:
		fail(start, "invalid number %s", t.text)
		return token{}
	}
}

// asFloat returns a number as a float. One that is too large is infinite.
func (t token) asFloat() token {
	var err error
	t.float, err = strconv.ParseFloat(t.text, 64)
	if strings.Contains(t.text, "_") || err != nil && !math.IsInf(t.float, 1) {
		fail(t.pos, "invalid number %s", t.text)
	}
	t.kind = float
	return t
}

// lexText reads a string, and returns what it stands for.
func (l *lexer) lexText(quote byte) token {
	t := token{kind: text, pos: l.offset}
	var b strings.Builder
	for l.offset++; ; l.offset++ {
		if l.offset == len(l.source) {
			fail(t.pos, "the string does not end")
		}
		switch c := l.source[l.offset]; c {
		case quote:
			l.offset++
			t.text = b.String()
			return t
		case '\n', 0:
			fail(l.offset, "invalid character %q in a string", c)
		case '\\':
			l.lexEscape(&b)
		default:
			b.WriteByte(c)
		}
	}
}

// lexEscape adds what an escape sequence stands for to b, and leaves the offset at its
// last byte.
func (l *lexer) lexEscape(b *strings.Builder) {
	start := l.offset
	l.offset++
	switch c := l.at(0); c {
	case 'x', 'X':
		l.offset++
		b.WriteByte(byte(l.lexCode(start, 16, 1, 2)))
	case '0', '1', '2', '3', '4', '5', '6', '7':
		code := l.lexCode(start, 8, 1, 3)
		if code > math.MaxUint8 {
			fail(start, "invalid escape sequence %s", l.source[start:l.offset+1])
		}
		b.WriteByte(byte(code))
	case 'u':
		l.offset++
		b.WriteRune(rune(l.lexCode(start, 16, 4, 4)))
	case 'U':
		l.offset++
		code := l.lexCode(start, 16, 8, 8)
		if code > utf8.MaxRune {
			fail(start, "invalid escape sequence %s", l.source[start:l.offset+1])
		}
		b.WriteRune(rune(code))
	default:
		n := strings.IndexByte(`abfnrtv\'"?`, c)
		if n < 0 || c == 0 {
			fail(start, "invalid escape sequence")
		}
		b.WriteByte("\a\b\f\n\r\t\v\\'\"?"[n])
	}
}

// lexCode reads from least to most digits.
func (l *lexer) lexCode(start, base, least, most int) uint64 {
	n := 0
	for n < most && isHex(l.at(n)) && (base == 16 || l.at(n) <= '7') {
		n++
	}
	code, err := strconv.ParseUint(l.source[l.offset:l.offset+n], base, 64)
	if n < least || err != nil {
		fail(start, "invalid escape sequence")
	}
	l.offset += n - 1
	return code
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

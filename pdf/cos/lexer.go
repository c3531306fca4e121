package cos

import "github.com/batchfleet/batchfleet/pdf/filter"

// Kind is the kind of a [Token].
type Kind uint8

// The kinds of token.
const (
	EOF Kind = iota
	Integer
	Real
	StringToken
	NameToken
	Keyword // anything else: "obj", "true", "Tj"
	ArrayOpen
	ArrayClose
	DictOpen
	DictClose
)

// Token is one lexical unit of PDF syntax.
type Token struct {
	Kind Kind
	// Number is the value of an Integer or Real, and means nothing in others.
	// Integers are exact: whole numbers beyond ±9e15 are returned as Real.
	Number float64
	// Bytes is the decoded content of a String, Name or Keyword. It may alias
	// the source and is valid until [Lexer.Recycle].
	Bytes []byte
}

// Int returns the number as an int. Reals lose their fraction, and numbers
// beyond ±9e15 are cut to that, so that sums of a few cannot overflow.
func (t Token) Int() int { return int(max(-maxInteger, min(maxInteger, t.Number))) }

// maxInteger is a little below 2⁵³, up to which a float64 holds every integer.
const maxInteger = 9e15

// Lexer splits PDF syntax into tokens. It never fails: bytes that mean nothing
// become keywords, and whatever is unfinished ends at the end of the source.
// Each token takes time linear in its length.
type Lexer struct {
	src     []byte
	pos     int
	scratch []byte   // decoded strings and names that differ from the source
	missing []string // ends of inline images that do not come any more
}

// NewLexer returns a lexer that reads src, which must not change meanwhile.
func NewLexer(src []byte) *Lexer { return &Lexer{src: src} }

// Recycle declares the Bytes of all tokens so far unused, so that their memory
// can hold those of the next.
func (l *Lexer) Recycle() { l.scratch = l.scratch[:0] }

const (
	regular = iota
	space
	delimiter
)

// class of every byte, from ISO 32000-1, 7.2.2.
var class = [256]uint8{
	0: space, '\t': space, '\n': space, '\f': space, '\r': space, ' ': space,
	'(': delimiter, ')': delimiter, '<': delimiter, '>': delimiter, '[': delimiter,
	']': delimiter, '{': delimiter, '}': delimiter, '/': delimiter, '%': delimiter,
}

// skipSpace moves to the next byte that is neither white space nor comment.
func (l *Lexer) skipSpace() {
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; {
		case class[c] == space:
			l.pos++
		case c == '%':
			for l.pos < len(l.src) && l.src[l.pos] != '\n' && l.src[l.pos] != '\r' {
				l.pos++
			}
		default:
			return
		}
	}
}

// Next returns the next token; its Kind is EOF at the end of the source and
// ever after.
func (l *Lexer) Next() Token {
	var t Token
	l.Scan(&t)
	return t
}

// Scan is [Lexer.Next] for callers with room for the token: most tokens are
// numbers of drawings, and copying each takes longer than reading it.
func (l *Lexer) Scan(t *Token) {
	t.Bytes = nil
	for {
		l.skipSpace()
		if l.pos >= len(l.src) {
			t.Kind = EOF
			return
		}
		c := l.src[l.pos]
		switch c {
		case '/':
			t.Kind, t.Bytes = NameToken, l.name()
			return
		case '(':
			t.Kind, t.Bytes = StringToken, l.literal()
			return
		case '<':
			if l.follows('<') {
				l.pos += 2
				t.Kind = DictOpen
				return
			}
			t.Kind, t.Bytes = StringToken, l.hex()
			return
		case '>':
			if l.follows('>') {
				l.pos += 2
				t.Kind = DictClose
				return
			}
			l.pos++ // a stray one
			continue
		case '[':
			l.pos++
			t.Kind = ArrayOpen
			return
		case ']':
			l.pos++
			t.Kind = ArrayClose
			return
		case '{', '}', ')':
			l.pos++
			t.Kind, t.Bytes = Keyword, l.src[l.pos-1:l.pos]
			return
		}
		word := l.word()
		if c <= '9' { // no letter begins a number
			if v, real, ok := number(word); ok {
				t.Kind, t.Number = Integer, v
				if real {
					t.Kind = Real
				}
				return
			}
		}
		t.Kind, t.Bytes = Keyword, word
		return
	}
}

func (l *Lexer) follows(c byte) bool { return l.pos+1 < len(l.src) && l.src[l.pos+1] == c }

// word returns the run of regular characters at the current position.
func (l *Lexer) word() []byte {
	start := l.pos
	for l.pos < len(l.src) && class[l.src[l.pos]] == regular {
		l.pos++
	}
	return l.src[start:l.pos]
}

func (l *Lexer) name() []byte {
	l.pos++
	raw := l.word()
	for i, c := range raw {
		if c == '#' {
			return l.unescape(raw, i)
		}
	}
	return raw
}

// unescape replaces #xx in a name, whose first # is at i.
func (l *Lexer) unescape(raw []byte, i int) []byte {
	start := len(l.scratch)
	l.scratch = append(l.scratch, raw[:i]...)
	for ; i < len(raw); i++ {
		if raw[i] == '#' && i+2 < len(raw) {
			if h, lo := filter.HexDigit(raw[i+1]), filter.HexDigit(raw[i+2]); h >= 0 && lo >= 0 {
				l.scratch = append(l.scratch, byte(h<<4|lo))
				i += 2
				continue
			}
		}
		l.scratch = append(l.scratch, raw[i])
	}
	return l.scratch[start:len(l.scratch):len(l.scratch)]
}

func (l *Lexer) hex() []byte {
	l.pos++
	start, high := len(l.scratch), -1
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		l.pos++
		if c == '>' {
			break
		}
		v := filter.HexDigit(c)
		if v < 0 {
			continue
		}
		if high < 0 {
			high = v
		} else {
			l.scratch = append(l.scratch, byte(high<<4|v))
			high = -1
		}
	}
	if high >= 0 {
		l.scratch = append(l.scratch, byte(high<<4))
	}
	return l.scratch[start:len(l.scratch):len(l.scratch)]
}

// literal reads a string in parentheses. Without escapes, which is how most
// strings of a content stream are, it copies nothing.
func (l *Lexer) literal() []byte {
	l.pos++
	start, depth := l.pos, 1
	for l.pos < len(l.src) {
		switch l.src[l.pos] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				l.pos++
				return l.src[start : l.pos-1]
			}
		case '\\', '\r':
			return l.escaped(start, depth)
		}
		l.pos++
	}
	return l.src[start:]
}

// escaped goes on with a string whose first escape or carriage return is at
// the current position.
func (l *Lexer) escaped(start, depth int) []byte {
	begin := len(l.scratch)
	l.scratch = append(l.scratch, l.src[start:l.pos]...)
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		l.pos++
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return l.scratch[begin:len(l.scratch):len(l.scratch)]
			}
		case '\r': // any end of line in a string is one line feed
			c = '\n'
			l.skipLineFeed()
		case '\\':
			var ok bool
			if c, ok = l.escape(); !ok {
				continue
			}
		}
		l.scratch = append(l.scratch, c)
	}
	return l.scratch[begin:len(l.scratch):len(l.scratch)]
}

func (l *Lexer) skipLineFeed() {
	if l.pos < len(l.src) && l.src[l.pos] == '\n' {
		l.pos++
	}
}

// escape reads what follows a backslash. It returns false if that stands for
// nothing, as a line continuation does.
func (l *Lexer) escape() (byte, bool) {
	if l.pos >= len(l.src) {
		return 0, false
	}
	c := l.src[l.pos]
	l.pos++
	switch c {
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case '\r':
		l.skipLineFeed()
		return 0, false
	case '\n':
		return 0, false
	}
	if c < '0' || c > '7' {
		return c, true
	}
	v := int(c - '0')
	for range 2 {
		if l.pos >= len(l.src) || l.src[l.pos] < '0' || l.src[l.pos] > '7' {
			break
		}
		v = v<<3 | int(l.src[l.pos]-'0')
		l.pos++
	}
	return byte(v), true
}

// number parses b the way readers have learned to: several signs count as one,
// and a minus in the middle ends the number (old writers produce "12.-34").
func number(b []byte) (v float64, real, ok bool) {
	i, negative := 0, false
	for i < len(b) && (b[i] == '+' || b[i] == '-') {
		negative = negative || b[i] == '-'
		i++
	}
	scale, digits := 1.0, false
loop:
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case '0' <= c && c <= '9':
			digits = true
			v = v*10 + float64(c-'0')
			if real {
				scale *= 10
			}
		case c == '.' && !real:
			real = true
		case c == '-':
			break loop
		default:
			return 0, false, false
		}
	}
	if !digits && !real {
		return 0, false, false
	}
	if v > 1e300 { // hundreds of digits: no coordinate, and Inf breaks arithmetic
		return 0, true, true
	}
	if real {
		v /= scale
	}
	if negative {
		v = -v
	}
	return v, real || v > maxInteger || v < -maxInteger, true
}

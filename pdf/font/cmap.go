package font

import (
	"unicode/utf16"
	"unicode/utf8"
)

// CMap maps character codes of one to four bytes to text (a ToUnicode CMap) or
// to the character ids of a font (an encoding CMap). Once read it does not
// change, so it may be used concurrently.
type CMap struct {
	// Use is the name of the CMap this one completes; empty if there is none.
	Use      string
	vertical bool
	ordering string // of the collection the CIDs belong to, such as "Japan1"; empty if unknown

	codespace [maxCode + 1][]codeRange // by length in bytes
	// sizes holds the length of the codes that begin with a byte; 0 where that
	// depends on the next.
	sizes [256]uint8

	texts   [maxCode + 1]spans[uint32] // a character, or from firstLong on an index into long
	long    []string
	cids    [maxCode + 1]spans[uint32]
	notdefs [maxCode + 1]spans[uint32] // whole ranges that show one character

	// base answers for the codes this one does not map; nil if there is none.
	// form tells how to put a code to it.
	base *CMap
	form codeForm
}

type codeRange struct{ lo, hi uint32 }

const (
	maxCode = 4 // bytes
	// maxCodespaces bounds the codespace ranges of one length; real CMaps have
	// up to about ten.
	maxCodespaces = 256
	// firstLong is the first number that is not a character.
	firstLong = utf8.MaxRune + 1
)

// codeForm is how codes are to be read as Unicode.
type codeForm uint8

const (
	opaque codeForm = iota // not at all
	utf16Form
	utf8Form
	utf32Form
)

// character returns the character that a code is.
func (f codeForm) character(code uint32, size int) (r rune, ok bool) {
	switch {
	case f == utf16Form && size == 4:
		r = utf16.DecodeRune(rune(code>>16), rune(code&0xffff))
	case f == utf16Form && size == 2, f == utf32Form && code <= utf8.MaxRune:
		r = rune(code)
	case f == utf8Form:
		b := [4]byte{byte(code >> 24), byte(code >> 16), byte(code >> 8), byte(code)}
		var n int
		if r, n = utf8.DecodeRune(b[4-size:]); n != size {
			return 0, false
		}
	default:
		return 0, false
	}
	return r, r != utf8.RuneError && utf8.ValidRune(r)
}

// text is the character of a code as text, empty if it is none that shows.
func (f codeForm) text(code uint32, size int) string {
	if r, ok := f.character(code, size); ok && r >= ' ' {
		return string(r)
	}
	return ""
}

// addCodespace declares that codes from lo to hi have size bytes.
func (c *CMap) addCodespace(size int, lo, hi uint32) {
	if len(c.codespace[size]) < maxCodespaces {
		c.codespace[size] = append(c.codespace[size], codeRange{lo, hi})
	}
}

// finish prepares c for look-ups. It must be called after the last change.
func (c *CMap) finish() {
	for size := range maxCode + 1 {
		c.texts[size].sort()
		c.cids[size].sort()
		c.notdefs[size].sort()
	}
	shortest := c.shortest()
	for b := range c.sizes {
		size := 0
		for n := 1; n <= maxCode; n++ {
			for _, r := range c.codespace[n] {
				if !inRange(uint32(b), codeRange{r.lo >> (8 * (n - 1)), r.hi >> (8 * (n - 1))}, 1) {
					continue
				}
				if size != 0 && size != n {
					size = -1
				} else if size == 0 {
					size = n
				}
			}
		}
		if size == 0 {
			size = shortest
		}
		c.sizes[b] = uint8(max(size, 0))
	}
}

// shortest returns the length of the shortest codes; two if nothing is known.
func (c *CMap) shortest() int {
	for n := 1; n <= maxCode; n++ {
		if len(c.codespace[n]) > 0 {
			return n
		}
	}
	return 2
}

// complete makes base answer for the codes c does not map.
func (c *CMap) complete(base *CMap) {
	c.base = base
	c.vertical = c.vertical || base.vertical
	if c.ordering == "" {
		c.ordering = base.ordering
	}
	for size := range base.codespace {
		for _, r := range base.codespace[size] {
			c.addCodespace(size, r.lo, r.hi)
		}
	}
	c.finish()
}

// Next returns the length of the code s begins with, by the codespace ranges.
// A code in none of them is as long as those of the range that it follows
// furthest, or as the shortest (ISO 32000-2, 9.7.6.3). s must not be empty.
func (c *CMap) Next(s []byte) int {
	if n := int(c.sizes[s[0]]); n > 0 {
		return min(n, len(s))
	}
	best, longest := c.shortest(), 0
	for n := 1; n <= maxCode; n++ {
		for _, r := range c.codespace[n] {
			m := matching(s, r, n)
			if m == n {
				return n
			}
			if m > longest {
				best, longest = n, m
			}
		}
	}
	return min(best, len(s))
}

// ranges returns how many codespace ranges there are.
func (c *CMap) ranges() (n int) {
	for _, list := range c.codespace {
		n += len(list)
	}
	return n
}

// matching returns how many of the first bytes of s are within r, whose codes
// are size bytes long.
func matching(s []byte, r codeRange, size int) int {
	for i := range size {
		shift := 8 * (size - 1 - i)
		if i >= len(s) || s[i] < byte(r.lo>>shift) || s[i] > byte(r.hi>>shift) {
			return i
		}
	}
	return size
}

// inRange compares byte by byte: a codespace range is a box, not an interval.
func inRange(code uint32, r codeRange, size int) bool {
	for shift := 0; shift < 8*size; shift += 8 {
		b := code >> shift & 0xff
		if b < r.lo>>shift&0xff || b > r.hi>>shift&0xff {
			return false
		}
	}
	return true
}

// HasText reports whether any code has text.
func (c *CMap) HasText() bool { return hasAny(&c.texts) || c.base != nil && c.base.HasText() }

// HasCIDs reports whether any code has a character id.
func (c *CMap) HasCIDs() bool { return hasAny(&c.cids) || c.base != nil && c.base.HasCIDs() }

func hasAny(bySize *[maxCode + 1]spans[uint32]) bool {
	for i := range bySize {
		if len(bySize[i].list) > 0 {
			return true
		}
	}
	return false
}

// Text returns the text of a code that is size bytes long. ok is false if the
// CMap does not say, or says U+0000, U+FFFD or U+FFFF, which writers use for
// what they do not know; a code may also have no text on purpose.
func (c *CMap) Text(code uint32, size int) (text string, ok bool) {
	for m := c; m != nil; m = m.base {
		e := m.texts[size].find(code)
		if e == nil {
			continue
		}
		if text = m.spanText(e, code-e.lo); isUnknown(text) {
			return "", false
		}
		return text, true
	}
	return "", false
}

// spanText returns the text of the code that is offset codes into e: the last
// character counts up.
func (c *CMap) spanText(e *span[uint32], offset uint32) string {
	if e.value < firstLong {
		return string(rune(e.value + offset)) // what is no character becomes U+FFFD
	}
	text := c.long[e.value-firstLong]
	if offset == 0 || text == "" {
		return text
	}
	last, n := utf8.DecodeLastRuneInString(text)
	return text[:len(text)-n] + string(last+rune(offset))
}

func isUnknown(text string) bool {
	for _, r := range text {
		if r != 0 && r != utf8.RuneError && r != 0xffff {
			return false
		}
	}
	return text != ""
}

// CID returns the character id of a code of size bytes, 0 if it has none.
func (c *CMap) CID(code uint32, size int) uint32 {
	own, ownSize := code, size
	for m := c; m != nil; m = m.base {
		if e := m.cids[size].find(code); e != nil {
			return e.value + code - e.lo
		}
		if m.form != opaque {
			r, ok := m.form.character(code, size)
			if !ok {
				break
			}
			code, size = uint32(r), 4
		}
	}
	for m := c; m != nil; m = m.base {
		if e := m.notdefs[ownSize].find(own); e != nil {
			return e.value
		}
	}
	return 0
}

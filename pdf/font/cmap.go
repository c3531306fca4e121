package font

import (
	"unicode/utf16"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// CMap maps character codes of one to four bytes to text (a ToUnicode CMap) or
// to the character ids of a font (an encoding CMap). It does not change, so it
// may be used concurrently.
type CMap struct {
	// Use is the name of the CMap this one completes; empty if there is none.
	Use      string
	vertical bool

	codespace [5][]codeRange // by length in bytes
	chars     map[charCode]string
	texts     spans[target]
	cids      spans[uint32]
}

type charCode struct {
	size int
	code uint32
}

type codeRange struct{ lo, hi uint32 }

// target is the text of a range of codes: either one text a code, or that of
// the first code, whose last character counts up.
type target struct {
	first string // UTF-16BE
	each  []string
}

const (
	// maxOperands bounds the operands of one CMap operator. The specification
	// allows 100 entries of three; some writers put all they have into one.
	maxOperands = 3 << 16
	// maxTextPerCode bounds the text of one code, in bytes. Ligatures have a few
	// characters; a long text for every code would be a way to fill memory.
	maxTextPerCode = 256
)

// ParseCMap reads a CMap file or stream. It never fails: what cannot be
// understood maps nothing.
func ParseCMap(src []byte) *CMap {
	c := &CMap{chars: map[charCode]string{}}
	p := cos.NewParser(src)
	var operands []cos.Object
	for {
		o, operator, ok := p.Next()
		if !ok {
			c.texts.sort()
			c.cids.sort()
			return c
		}
		if operator == "" {
			if len(operands) < maxOperands {
				operands = append(operands, o)
			}
			continue
		}
		c.apply(operator, operands)
		operands = operands[:0]
	}
}

func (c *CMap) apply(operator string, operands []cos.Object) {
	switch operator {
	case "usecmap":
		if n := len(operands); n > 0 {
			name, _ := operands[n-1].(cos.Name)
			c.Use = string(name)
		}
	case "def":
		if n := len(operands); n >= 2 && operands[n-2] == cos.Name("WMode") {
			c.vertical = operands[n-1] == 1
		}
	case "endcodespacerange":
		for ; len(operands) >= 2; operands = operands[2:] {
			lo, size := code(operands[0])
			hi, _ := code(operands[1])
			if size > 0 && len(c.codespace[size]) < 256 {
				c.codespace[size] = append(c.codespace[size], codeRange{lo, hi})
			}
		}
	case "endbfchar":
		for ; len(operands) >= 2; operands = operands[2:] {
			c.bfchar(operands[0], operands[1])
		}
	case "endbfrange":
		for ; len(operands) >= 3; operands = operands[3:] {
			c.bfrange(operands[0], operands[1], operands[2])
		}
	case "endcidchar":
		for ; len(operands) >= 2; operands = operands[2:] {
			c.cidrange(operands[0], operands[0], operands[1])
		}
	case "endcidrange":
		for ; len(operands) >= 3; operands = operands[3:] {
			c.cidrange(operands[0], operands[1], operands[2])
		}
	}
}

// code returns a character code and its length in bytes; 0 if o is none.
func code(o cos.Object) (code uint32, size int) {
	s, _ := o.(cos.String)
	if len(s) == 0 || len(s) > 4 {
		return 0, 0
	}
	return bigEndian(s), len(s)
}

func bigEndian[S ~string | ~[]byte](s S) (v uint32) {
	for i := range len(s) {
		v = v<<8 | uint32(s[i])
	}
	return v
}

func (c *CMap) bfchar(from, to cos.Object) {
	code, size := code(from)
	if size == 0 || len(c.chars) >= maxSpans {
		return
	}
	switch v := to.(type) {
	case cos.String:
		c.chars[charCode{size, code}] = utf16Text(string(v))
	case cos.Name:
		c.chars[charCode{size, code}] = GlyphText(string(v))
	}
}

func (c *CMap) bfrange(from, to, text cos.Object) {
	lo, size := code(from)
	hi, _ := code(to)
	if size == 0 {
		return
	}
	switch v := text.(type) {
	case cos.String:
		c.texts.add(size, lo, hi, target{first: string(v[:min(len(v), maxTextPerCode)])})
	case cos.Array:
		each := make([]string, len(v))
		for i := range v {
			s, _ := v[i].(cos.String)
			each[i] = utf16Text(string(s))
		}
		c.texts.add(size, lo, hi, target{each: each})
	}
}

func (c *CMap) cidrange(from, to, cid cos.Object) {
	lo, size := code(from)
	hi, _ := code(to)
	if n, ok := cid.(int); ok && size > 0 && n >= 0 && n <= 0xffff {
		c.cids.add(size, lo, hi, uint32(n))
	}
}

// utf16Text decodes UTF-16BE. A single byte, which is not UTF-16, is a
// character of Latin 1.
func utf16Text(s string) string {
	s = s[:min(len(s), maxTextPerCode)]
	if len(s) == 1 {
		return string(rune(s[0]))
	}
	units := make([]uint16, 0, len(s)/2)
	for i := 0; i+1 < len(s); i += 2 {
		units = append(units, uint16(s[i])<<8|uint16(s[i+1]))
	}
	return string(utf16.Decode(units))
}

// HasText reports whether any code has text.
func (c *CMap) HasText() bool { return len(c.chars) > 0 || len(c.texts) > 0 }

// Text returns the text of a code that is size bytes long. ok is false if the
// CMap does not say; a code may also have no text on purpose.
func (c *CMap) Text(code uint32, size int) (text string, ok bool) {
	if text, ok := c.chars[charCode{size, code}]; ok {
		return text, true
	}
	e, ok := c.texts.find(size, code)
	if !ok {
		return "", false
	}
	offset := code - e.lo
	if e.value.each != nil {
		if int(offset) < len(e.value.each) {
			return e.value.each[offset], true
		}
		return "", false
	}
	first := []byte(e.value.first)
	if len(first) == 1 {
		return string(rune(uint32(first[0]) + offset)), true
	}
	if n := len(first); n >= 2 {
		last := uint32(first[n-2])<<8 | uint32(first[n-1]) + offset
		first[n-2], first[n-1] = byte(last>>8), byte(last)
	}
	return utf16Text(string(first)), true
}

// Next returns the length of the code s begins with, by the codespace ranges,
// or the shortest length if none fits. s must not be empty.
func (c *CMap) Next(s []byte) int {
	var code uint32
	for n := 1; n <= 4 && n <= len(s); n++ {
		code = code<<8 | uint32(s[n-1])
		for _, r := range c.codespace[n] {
			if inRange(code, r, n) {
				return n
			}
		}
	}
	for n := 1; n <= 4; n++ {
		if len(c.codespace[n]) > 0 {
			return min(n, len(s))
		}
	}
	return min(2, len(s))
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

// CID returns the character id of a code of size bytes, 0 if it has none.
func (c *CMap) CID(code uint32, size int) uint32 {
	e, ok := c.cids.find(size, code)
	if !ok {
		return 0
	}
	return e.value + code - e.lo
}

// HasCIDs reports whether any code has a character id.
func (c *CMap) HasCIDs() bool { return len(c.cids) > 0 }

package font

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

const (
	// maxOperands bounds the operands of one CMap operator. The specification
	// allows 100 entries of three; some writers put all they have into one.
	maxOperands = 3 << 16
	// maxTextPerCode bounds the text of one code, in bytes of UTF-16. Ligatures
	// have a few characters; a long text for every code would be a way to fill
	// memory.
	maxTextPerCode = 256
	// maxCID is the highest character id (ISO 32000-2, annex C).
	maxCID = 0xffff
)

// ParseCMap reads a CMap file or stream. It never fails: what cannot be
// understood maps nothing.
func ParseCMap(src []byte) *CMap {
	c := &CMap{}
	lexer := cos.NewLexer(src)
	var operands []cos.Token
	var section string // the operator that ends what has begun
	read := func(t cos.Token) {
		if t.Kind != cos.Keyword {
			if len(operands) < maxOperands {
				operands = append(operands, t)
			}
			return
		}
		if begun, ok := strings.CutPrefix(string(t.Bytes), "begin"); ok {
			c.apply(section, operands) // if its end is missing
			section = "end" + begun
		} else {
			c.apply(string(t.Bytes), operands)
			section = ""
		}
		operands = operands[:0]
	}
	for {
		t := lexer.Next()
		if t.Kind == cos.EOF {
			c.apply(section, operands)
			c.finish()
			return c
		}
		unglue(t, read)
		if len(operands) == 0 {
			lexer.Recycle()
		}
	}
}

func (c *CMap) apply(operator string, operands []cos.Token) {
	switch operator {
	case "usecmap":
		if n := len(operands); n > 0 && operands[n-1].Kind == cos.NameToken {
			c.Use = string(operands[n-1].Bytes)
		}
	case "def":
		if n := len(operands); n >= 2 && operands[n-2].Kind == cos.NameToken && string(operands[n-2].Bytes) == "WMode" {
			c.vertical = operands[n-1].Int() == 1
		}
	case "endcodespacerange":
		for ; len(operands) >= 2; operands = operands[2:] {
			if lo, hi, size := codes(operands); size > 0 {
				c.addCodespace(size, lo, hi)
			}
		}
	case "endbfchar":
		for ; len(operands) >= 2; operands = operands[2:] {
			if code, size := code(operands[0]); size > 0 {
				c.addText(size, code, code, operands[1])
			}
		}
	case "endbfrange":
		for len(operands) >= 3 {
			operands = c.bfrange(operands)
		}
	case "endcidchar":
		for ; len(operands) >= 2; operands = operands[2:] {
			code, size := code(operands[0])
			addCIDs(&c.cids, size, code, code, operands[1])
		}
	case "endcidrange":
		for ; len(operands) >= 3; operands = operands[3:] {
			lo, hi, size := codes(operands)
			addCIDs(&c.cids, size, lo, hi, operands[2])
		}
	case "endnotdefrange":
		for ; len(operands) >= 3; operands = operands[3:] {
			lo, hi, size := codes(operands)
			addCIDs(&c.notdefs, size, lo, hi, operands[2])
		}
	}
}

// code returns a character code and its length in bytes; 0 if t is none.
func code(t cos.Token) (code uint32, size int) {
	if t.Kind != cos.StringToken || len(t.Bytes) == 0 || len(t.Bytes) > maxCode {
		return 0, 0
	}
	return bigEndian(t.Bytes), len(t.Bytes)
}

// codes returns the range of codes that two operands name.
func codes(operands []cos.Token) (lo, hi uint32, size int) {
	lo, size = code(operands[0])
	hi, _ = code(operands[1])
	return lo, hi, size
}

func bigEndian(b []byte) (v uint32) {
	for _, b := range b {
		v = v<<8 | uint32(b)
	}
	return v
}

// bfrange reads one range, "<lo> <hi> <text>" or "<lo> <hi> [<text> …]", and
// returns the operands after it.
func (c *CMap) bfrange(operands []cos.Token) (rest []cos.Token) {
	lo, hi, size := codes(operands)
	if operands[2].Kind != cos.ArrayOpen {
		if size > 0 {
			c.addText(size, lo, hi, operands[2])
		}
		return operands[3:]
	}
	rest = operands[3:]
	for len(rest) > 0 && rest[0].Kind != cos.ArrayClose {
		if size > 0 && lo <= hi {
			c.addText(size, lo, lo, rest[0])
			lo++
		}
		rest = rest[1:]
	}
	return rest[min(1, len(rest)):]
}

func (c *CMap) addText(size int, lo, hi uint32, text cos.Token) {
	switch text.Kind {
	case cos.StringToken:
		c.texts[size].add(lo, hi, c.textValue(text.Bytes))
	case cos.NameToken:
		c.texts[size].add(lo, hi, c.longValue(GlyphText(string(text.Bytes))))
	case cos.EOF, cos.Integer, cos.Real, cos.Keyword, cos.ArrayOpen, cos.ArrayClose, cos.DictOpen, cos.DictClose:
	}
}

// textValue returns the value of a span whose first code has this text, in
// UTF-16BE; a single byte, which is not UTF-16, is a character of Latin 1.
func (c *CMap) textValue(s []byte) uint32 {
	switch {
	case len(s) == 1:
		return uint32(s[0])
	case len(s) == 2 || len(s) == 3:
		return bigEndian(s[:2])
	}
	const byteOrderMark = "\ufeff" // some writers begin every text with it
	return c.longValue(strings.TrimPrefix(utf16Text(s[:min(len(s), maxTextPerCode)]), byteOrderMark))
}

func (c *CMap) longValue(text string) uint32 {
	if r, n := utf8.DecodeRuneInString(text); n == len(text) && n > 0 {
		return uint32(r)
	}
	if len(c.long) >= maxSpans {
		return utf8.RuneError
	}
	c.long = append(c.long, text)
	return firstLong + uint32(len(c.long)-1)
}

func utf16Text(s []byte) string {
	units := make([]uint16, 0, len(s)/2)
	for i := 0; i+1 < len(s); i += 2 {
		units = append(units, uint16(s[i])<<8|uint16(s[i+1]))
	}
	return string(utf16.Decode(units))
}

func addCIDs(to *[maxCode + 1]spans[uint32], size int, lo, hi uint32, cid cos.Token) {
	if n := cid.Int(); size > 0 && cid.Kind == cos.Integer && n >= 0 && n <= maxCID {
		to[size].add(lo, hi, uint32(n))
	}
}

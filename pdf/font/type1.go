package font

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// maxType1Header bounds the clear part of a Type 1 font program that is
// searched for its encoding.
const maxType1Header = 32 << 10

// type1Encoding reads "dup 65 /A put" lines from the clear part of a Type 1
// font program. ok is false if the font uses the standard encoding or has none
// that can be read.
func type1Encoding(program []byte) (e charset, ok bool) {
	_, rest, found := bytes.Cut(program, []byte("/Encoding"))
	if !found {
		return e, false
	}
	l := cos.NewLexer(rest)
	var code, name cos.Token
	for {
		l.Recycle()
		t := l.Next()
		switch {
		case t.Kind == cos.EOF:
			return e, ok
		case t.Kind == cos.Integer:
			code = t
		case t.Kind == cos.NameToken:
			name = cos.Token{Kind: t.Kind, Bytes: bytes.Clone(t.Bytes)}
		case t.Kind != cos.Keyword:
		case string(t.Bytes) == "StandardEncoding":
			return e, false
		case string(t.Bytes) == "put":
			if c := code.Int(); c >= 0 && c < len(e) && name.Kind == cos.NameToken {
				e[c] = GlyphText(string(name.Bytes))
				ok = true
			}
		case string(t.Bytes) == "dup":
			code, name = cos.Token{}, cos.Token{}
		case string(t.Bytes) == "readonly", string(t.Bytes) == "currentdict", string(t.Bytes) == "eexec":
			return e, ok
		case strings.HasPrefix(string(t.Bytes), "8#"): // radix notation, of some old foundries
			if v, err := strconv.ParseUint(string(t.Bytes[2:]), 8, 8); err == nil {
				code = cos.Token{Kind: cos.Integer, Number: float64(v)}
			}
		}
	}
}

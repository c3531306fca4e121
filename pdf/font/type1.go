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

// isType1 reports whether program begins as a Type 1 font, as plain text or
// with the segment headers of a PFB file.
func isType1(program []byte) bool {
	return bytes.HasPrefix(program, []byte("%!")) || bytes.HasPrefix(program, []byte{0x80, 1})
}

// type1Encoding reads "dup 65 /A put" lines from the clear part of a Type 1
// font program. It returns nil if the font uses the standard encoding or has
// none that can be read.
func type1Encoding(program []byte) *[256]string {
	_, rest, found := bytes.Cut(program, []byte("/Encoding"))
	if !found {
		return nil
	}
	var names *[256]string
	l := cos.NewLexer(rest)
	code, name := -1, ""
	for {
		l.Recycle()
		t := l.Next()
		switch {
		case t.Kind == cos.EOF:
			return names
		case t.Kind == cos.Integer:
			code = t.Int()
		case t.Kind == cos.NameToken:
			name = string(t.Bytes[:min(len(t.Bytes), maxGlyphName)])
		case t.Kind != cos.Keyword:
		case string(t.Bytes) == "StandardEncoding":
			return nil
		case string(t.Bytes) == "put":
			if names == nil {
				names = new([256]string)
			}
			if code >= 0 && code < len(names) && name != "" {
				names[code] = name
			}
		case string(t.Bytes) == "dup":
			code, name = -1, ""
		case string(t.Bytes) == "readonly", string(t.Bytes) == "currentdict", string(t.Bytes) == "eexec":
			return names
		case strings.HasPrefix(string(t.Bytes), "8#"): // radix notation, of some old foundries
			if v, err := strconv.ParseUint(string(t.Bytes[2:]), 8, 8); err == nil {
				code = int(v)
			}
		}
	}
}

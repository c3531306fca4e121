// Package font turns the codes of PDF strings into text and widths: the
// encodings of simple fonts, composite (Type 0) fonts, CMaps, glyph names, and
// what can be learnt from font programs.
//
// It draws nothing: glyph outlines are never read. Fonts that are embedded
// without any way back to text give none, as in every other reader.
//
// Glyph names come from the Adobe Glyph List, under the BSD licence in
// LICENSE-adobe-glyph-list.txt.
package font

import (
	"github.com/batchfleet/batchfleet/pdf/cos"
)

// Glyph is what one character code shows.
type Glyph struct {
	Text  string  // may be several characters, or none
	Width float64 // how far it moves the pen along the line, for a font size of 1
	// Space marks the single-byte code 32, which word spacing applies to.
	Space bool
}

// Font decodes the strings shown in one font. It is not safe for concurrent
// use.
type Font struct {
	// Vertical fonts write from top to bottom.
	Vertical bool

	simple    *[256]Glyph // nil for a composite font
	composite *composite
}

const (
	// maxCMap bounds a CMap inside a document, decoded; the largest of Adobe's
	// are below 1 MiB.
	maxCMap = 8 << 20
	// maxProgram bounds what is read of an embedded font program.
	maxProgram = 64 << 20
)

// Load reads the font dictionary o. It always returns a font: where o says
// nothing usable the codes are read as WinAnsi.
func Load(file *cos.File, o cos.Object) *Font {
	d := file.Dict(o)
	if d == nil {
		return &Font{simple: unknownFont()}
	}
	if file.Name(d["Subtype"]) == "Type0" {
		return loadComposite(file, d)
	}
	return &Font{simple: loadSimple(file, d)}
}

func unknownFont() *[256]Glyph {
	var glyphs [256]Glyph
	for code, text := range baseEncoding("WinAnsiEncoding") {
		glyphs[code] = Glyph{Text: text, Width: 0.5, Space: code == ' '}
	}
	return &glyphs
}

// Next returns the glyph of the first code of s and the length of that code in
// bytes, at least 1. s must not be empty.
func (f *Font) Next(s []byte) (Glyph, int) {
	if f.simple != nil {
		return f.simple[s[0]], 1
	}
	return f.composite.next(s)
}

// toUnicode returns the ToUnicode CMap of font dictionary d, or nil.
func toUnicode(file *cos.File, d cos.Dict) *CMap {
	s := file.Stream(d["ToUnicode"])
	if s == nil {
		return nil
	}
	data, _ := file.DecodePrefix(s, maxCMap) // a damaged CMap still maps some codes
	if c := ParseCMap(data); c.HasText() {
		return c
	}
	return nil
}

// Package font turns the codes of PDF strings into text and widths: the
// encodings of simple fonts, composite (Type 0) fonts, CMaps, glyph names, and
// what can be learnt from font programs.
//
// It draws nothing: glyph outlines are never read. Where a font gives no way
// back to text, codes of one byte are taken for Latin 1, as poppler does, unless
// their glyphs are named after their own numbers; longer ones give none.
//
// Glyph names come from the Adobe Glyph List, under the BSD licence in
// LICENSE-adobe-glyph-list.txt. The CMaps of Adobe's CJK character collections,
// and the text of their characters, are Adobe's too, under the BSD licence in
// LICENSE-adobe-cmap-resources.txt. They are embedded compressed, 0.3 MB, and
// read when a document asks for one.
//
// The metrics of the fourteen standard fonts are from Adobe's AFM files, under
// the terms in LICENSE-adobe-core14-afm.txt. "go generate" makes all these tables
// again from packages of Debian.
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
	// Em is how large its glyphs are, for a font size of 1: 1 but for Type 3
	// fonts whose glyphs have a size of their own.
	Em float64

	// Missing says that there is no such font: its codes are guessed.
	Missing bool

	simple    *simple // nil for a composite font
	composite *composite
	notes     []string // what was damaged of it when it was loaded
}

const (
	// maxCMap bounds a CMap inside a document, decoded; the largest of Adobe's
	// are below 1 MiB.
	maxCMap = 2 << 20
	// maxProgram bounds what is read of an embedded font program.
	maxProgram = 64 << 20
)

// Load reads the font dictionary o. It always returns a font: where o says
// nothing usable the codes are read as WinAnsi.
func Load(file *cos.File, o cos.Object) *Font {
	d := file.Dict(o)
	if d == nil {
		return &Font{Em: 1, simple: unknownFont(file), Missing: true}
	}
	for _, key := range [...]cos.Name{"ToUnicode", "Encoding", "DescendantFonts", "FontDescriptor", "Widths"} {
		noteMissing(file, d, key)
	}
	subtype := file.Name(d["Subtype"])
	if subtype == "Type0" || subtype == "" && d["DescendantFonts"] != nil {
		return loadComposite(file, d)
	}
	f := &Font{Em: 1, simple: loadSimple(file, d)}
	if subtype == "Type3" {
		f.Em = f.simple.em()
	}
	return f
}

// noteMissing notes that an entry of a font's dictionary leads to nothing.
func noteMissing(file *cos.File, d cos.Dict, key cos.Name) {
	if file.Missing(d[key]) {
		file.Note("the %s of a font is missing", key)
	}
}

// renote notes what is damaged of a font that is used again.
func (f *Font) renote(file *cos.File) {
	file.Renote(f.notes)
	if f.simple != nil {
		file.Renote(f.simple.notes)
	} else {
		file.Renote(f.composite.notes)
	}
}

// Next returns the glyph of the first code of s and the length of that code in
// bytes, at least 1. s must not be empty.
func (f *Font) Next(s []byte) (Glyph, int) {
	if f.simple != nil {
		return f.simple.glyph(s[0]), 1
	}
	return f.composite.next(s)
}

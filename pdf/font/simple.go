package font

import (
	"math"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// simple is a Type 1, TrueType or Type 3 font: 256 codes of one byte. What
// a code shows is found out when it is first shown. Documents show few codes of
// most of their fonts, and few fonts need to have their program read.
type simple struct {
	file       *cos.File
	descriptor cos.Dict
	trueType   bool
	symbolic   bool
	name       string // plain, without the tag of a subset

	toUnicode   *CMap        // nil if there is none
	differences *differences // nil if there are none
	base        encoding     // nil if the font does not name one
	own         *specialFace // of Symbol and ZapfDingbats; nil for others

	widths  cos.Array // none if the file leaves them out
	first   int       // code of the first width
	missing float64   // of codes not in widths
	scale   float64   // size of a unit of widths, for a font size of 1
	face    face      // if there are no widths

	program  *program // nil if not read yet, or if there is none
	searched bool     // for the program
	notes    []string // what was damaged of it

	glyphs [256]Glyph
	known  [256]bool // of the glyphs
}

func loadSimple(file *cos.File, d cos.Dict) *simple {
	s := &simple{
		file: file, descriptor: file.Dict(d["FontDescriptor"]), toUnicode: toUnicode(file, d),
		trueType: file.Name(d["Subtype"]) == "TrueType", name: plainName(string(file.Name(d["BaseFont"]))),
	}
	flags, _ := file.Int(s.descriptor["Flags"])
	s.symbolic = flags&flagSymbolic != 0 && flags&flagNonsymbolic == 0
	switch {
	case isDingbats(s.name):
		s.own = dingbatFace()
	case isSymbol(s.name):
		s.own = symbolFace()
	}
	s.loadEncoding(d["Encoding"])
	s.loadWidths(d, flags)
	return s
}

// unknownFont stands in for a font that is not there.
func unknownFont(file *cos.File) *simple {
	s := loadSimple(file, cos.Dict{})
	s.base = winAnsi
	return s
}

func (s *simple) loadEncoding(o cos.Object) {
	switch e := s.file.Resolve(o).(type) {
	case cos.Name:
		s.base = baseEncoding(e)
	case cos.Dict:
		s.base = baseEncoding(s.file.Name(e["BaseEncoding"]))
		s.differences = loadDifferences(s.file, s.file.Array(e["Differences"]))
	}
	if isDingbats(s.name) {
		// Many files name an encoding of letters, which it does not have; like
		// poppler this ignores it.
		s.base = nil
	}
}

func (s *simple) loadWidths(d cos.Dict, flags int) {
	s.scale = glyphScale(s.file, d)
	s.missing, _ = s.file.Number(s.descriptor["MissingWidth"])
	s.widths = s.file.Array(d["Widths"])
	if len(s.widths) == 0 {
		s.face = faceOf(s.name, flags)
		return
	}
	var ok bool
	if s.first, ok = s.file.Int(d["FirstChar"]); !ok {
		if last, ok := s.file.Int(d["LastChar"]); ok && last >= len(s.widths) && last < 256 {
			s.first = last - len(s.widths) + 1
		}
	}
}

// glyphScale returns the size of a unit of glyph space: a thousandth, but for
// Type 3 fonts, which declare it themselves.
func glyphScale(file *cos.File, d cos.Dict) float64 {
	if file.Name(d["Subtype"]) == "Type3" {
		if m := file.Array(d["FontMatrix"]); len(m) == 6 {
			a, _ := file.Number(m[0])
			b, _ := file.Number(m[1])
			if v := math.Hypot(a, b); v > 0 { // b is not 0 in fonts that lie on their side
				return v
			}
		}
	}
	return 0.001
}

// em estimates how large the glyphs are for a font size of 1. Some writers set
// the size of a Type 3 font to 1 and draw its glyphs in units of the page.
func (s *simple) em() float64 {
	const typical = 0.5 // em, the width of a letter
	sum, n := 0.0, 0
	for _, o := range s.widths[:min(len(s.widths), 256)] {
		if w, ok := s.file.Number(o); ok && w > 0 {
			sum += w * s.scale
			n++
		}
	}
	if n == 0 {
		return 1
	}
	// Fonts of the usual scale have narrow letters only, or wide ones.
	if em := sum / float64(n) / typical; em < 0.25 || em > 4 {
		return em
	}
	return 1
}

// glyph returns what a code shows.
func (s *simple) glyph(code byte) Glyph {
	if s.known[code] {
		return s.glyphs[code]
	}
	text := s.text(code)
	g := Glyph{Text: text, Width: s.width(code, text), Space: code == ' '}
	if s.file.BudgetErr() == nil { // or what it needs may not have been read
		s.glyphs[code], s.known[code] = g, true
	}
	return g
}

// text finds the text of a code, from the best source that has it: the
// ToUnicode CMap, the names of the file, an encoding that the file names, the
// font's own encoding (ISO 32000-2, 9.10.2).
func (s *simple) text(code byte) string {
	if s.toUnicode != nil {
		for size := range 2 { // some writers use two bytes throughout
			if text, ok := s.toUnicode.Text(uint32(code), size+1); ok {
				return text
			}
		}
	}
	if s.differences != nil {
		if name := s.differences.names[code]; name != "" {
			return s.nameText(string(name), code)
		}
	}
	if s.base != nil {
		return s.base(code)
	}
	return s.ownText(code)
}

// nameText returns the text of the glyph of that name, which a code shows.
func (s *simple) nameText(name string, code byte) string {
	if name == "" || name[0] == '.' { // .notdef
		return ""
	}
	if s.own != nil {
		if text, ok := s.own.names[name]; ok {
			return text
		}
	}
	if text := knownText(name); text != "" {
		return text
	}
	if s.differences != nil {
		if v, ok := s.differences.numbering.number(name); ok {
			return character(v)
		}
	}
	if p := s.loadProgram(); p != nil {
		if text := p.namedText(name); text != "" {
			return text
		}
	}
	if text := numberedText(name); text != "" {
		return text
	}
	if numbersGlyph(name) {
		return ""
	}
	// Any other name without a meaning is likely of a font whose codes are those of
	// ASCII, as with most bitmap fonts of TeX.
	return character(int(code))
}

// character returns the text of a character of Latin 1, "" for others and
// control characters.
func character(v int) string {
	if v < ' ' || v > 0xff || v >= 0x7f && v < 0xa0 {
		return ""
	}
	return string(rune(v))
}

// ownText returns the text of a code by the encoding built into the font
// program, or that of a font which is not embedded.
func (s *simple) ownText(code byte) string {
	if p := s.loadProgram(); p != nil {
		if name, ok := p.codeName(code); ok {
			return s.nameText(name, code)
		}
		if s.symbolic && p.isTrueType() {
			// Fonts with the codes of the Macintosh are ordinary ones that only
			// claim to be symbolic; poppler and MuPDF read them as WinAnsi.
			if text := p.glyphText(p.codeGlyph(code)); text != "" && text != characterOf(macintosh, code) {
				return text
			}
		}
	}
	switch {
	case s.own != nil:
		return s.own.text[code]
	case s.trueType:
		return winAnsi(code)
	}
	return standard(code)
}

func (s *simple) loadProgram() *program {
	if !s.searched {
		s.notes = s.file.Noted(func() { s.program = loadProgram(s.file, s.descriptor) })
		s.searched = s.file.BudgetErr() == nil
	}
	return s.program
}

// width returns how far a code moves the pen, for a font size of 1.
func (s *simple) width(code byte, text string) float64 {
	if len(s.widths) > 0 {
		if i := int(code) - s.first; i >= 0 && i < len(s.widths) {
			if w, ok := s.file.Number(s.widths[i]); ok {
				return w * s.scale
			}
		}
		return s.missing * s.scale
	}
	if w, ok := s.programWidth(code, text); ok {
		return w
	}
	if w, ok := s.face.width(code, text); ok {
		return w / 1000
	}
	return max(s.missing, 500) / 1000
}

// programWidth returns the width of a code in an embedded TrueType program.
func (s *simple) programWidth(code byte, text string) (w float64, ok bool) {
	p := s.loadProgram()
	if !p.isTrueType() {
		return 0, false
	}
	glyph := 0
	if s.symbolic {
		glyph = p.codeGlyph(code)
	}
	if runes := []rune(text); glyph == 0 && len(runes) == 1 {
		glyph = p.characterGlyph(runes[0])
	}
	if glyph == 0 {
		return 0, false
	}
	return p.sfnt.advance(glyph)
}

package font

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// program is what an embedded font program tells about its codes and glyphs. It is
// empty for a program of an unknown kind.
type program struct {
	type1 *[256]string // names of the codes, of a Type 1 program with an encoding of its own
	cff   *cffFont
	sfnt  sfnt

	// Of an sfnt, read at the first need.
	read       bool
	characters map[int]rune
	names      []string
}

// loadProgram reads the font program of a font descriptor, or returns nil. The
// program is known by its content: writers confuse the entries.
func loadProgram(file *cos.File, descriptor cos.Dict) *program {
	for _, key := range [...]cos.Name{"FontFile", "FontFile2", "FontFile3"} {
		noteMissing(file, descriptor, key)
		s := file.Stream(descriptor[key])
		if s == nil {
			continue
		}
		if key == "FontFile" {
			// The rest of a Type 1 program are encrypted outlines.
			if data, _ := file.DecodePrefix(s, maxType1Header); isType1(data) {
				return parseProgram(data)
			}
		}
		data, _ := file.DecodePrefix(s, maxProgram) // of a damaged program some tables may be whole
		return parseProgram(data)
	}
	return nil
}

func parseProgram(data []byte) *program {
	p := &program{}
	switch {
	case isType1(data):
		p.type1 = type1Encoding(data[:min(len(data), maxType1Header)])
	case isSFNT(data):
		if _, table := sfnt(data).table("CFF "); table != nil {
			p.cff = parseCFF(table)
		}
		p.sfnt = sfnt(data).only("cmap", "head", "hhea", "hmtx", "post")
	default:
		p.cff = parseCFF(data)
	}
	return p
}

// isSFNT reports whether data begins as a TrueType or OpenType font.
func isSFNT(data []byte) bool {
	for _, version := range [...]string{"\x00\x01\x00\x00", "true", "OTTO"} {
		if bytes.HasPrefix(data, []byte(version)) {
			return true
		}
	}
	return false
}

// codeName returns the name of the glyph of a code, by the program's own
// encoding. ok is false if it has none that says.
func (p *program) codeName(code byte) (name string, ok bool) {
	switch {
	case p.type1 != nil:
		return p.type1[code], true
	case p.cff != nil:
		// Some have an encoding that is empty. Like poppler, this takes the
		// standard encoding where it has gaps.
		name = p.cff.codeName(code)
		return name, name != ""
	}
	return "", false
}

// isTrueType reports whether p has cmap tables that matter to simple fonts.
func (p *program) isTrueType() bool { return p != nil && p.sfnt != nil && p.cff == nil }

// codeGlyph returns the glyph of a code of a symbolic TrueType font, by the
// rules of ISO 32000-2, 9.6.5.4; 0 for none.
func (p *program) codeGlyph(code byte) int {
	maps := p.sfnt.cmaps()
	for _, m := range maps {
		if m.platform != 3 || m.encoding != 0 {
			continue
		}
		for _, high := range [...]int{0xf000, 0, 0xf100, 0xf200} {
			if glyph := p.sfnt.glyph(m.at, high|int(code)); glyph != 0 {
				return glyph
			}
		}
	}
	for _, m := range maps {
		if m.platform == 1 && m.encoding == 0 {
			return p.sfnt.glyph(m.at, int(code))
		}
	}
	return 0
}

// characterGlyph returns the glyph of a character, 0 for none.
func (p *program) characterGlyph(r rune) int {
	for _, at := range p.sfnt.unicodeMaps() {
		if glyph := p.sfnt.glyph(at, int(r)); glyph != 0 {
			return glyph
		}
	}
	return 0
}

// glyphText returns the text of a glyph by its number, "" if the program does
// not say: by a Unicode cmap, or by the glyph's name.
func (p *program) glyphText(glyph int) string {
	p.readGlyphs()
	if r, ok := p.characters[glyph]; ok && !isPrivate(r) {
		return string(r)
	}
	if glyph >= 0 && glyph < len(p.names) {
		return knownText(p.names[glyph])
	}
	if p.cff != nil {
		return knownText(p.cff.name(glyph))
	}
	return ""
}

// namedText returns the text of a glyph whose name does not tell it, "" if the program
// does not tell either.
func (p *program) namedText(name string) string {
	p.readGlyphs()
	if glyph := slices.Index(p.names, name); glyph >= 0 {
		return p.glyphText(glyph)
	}
	if glyph, ok := glyphNumber(name); ok {
		return p.glyphText(glyph)
	}
	return ""
}

func (p *program) readGlyphs() {
	if p.sfnt != nil && !p.read {
		p.characters, p.names, p.read = glyphCharacters(p.sfnt), p.sfnt.post(), true
	}
}

// isPrivate reports whether r is of the private use area, where symbol fonts
// put their codes.
func isPrivate(r rune) bool { return r >= 0xe000 && r <= 0xf8ff }

// glyphNumber returns the number of a glyph that is named after it, as in
// "g12", "glyph12", "gid00012", "cid_12" or "index12".
func glyphNumber(name string) (glyph int, ok bool) {
	lower := strings.ToLower(name[:min(len(name), maxGlyphName)])
	for _, prefix := range [...]string{"glyph", "gid", "cid", "index", "g"} {
		if digits, found := strings.CutPrefix(lower, prefix); found {
			v, err := strconv.ParseUint(strings.TrimPrefix(digits, "_"), 10, 16)
			return int(v), err == nil
		}
	}
	return 0, false
}

// numbersGlyph reports whether name is no more than the number of a glyph,
// which does not tell its text. After a "g" it may be hexadecimal, as in
// "G0A".
func numbersGlyph(name string) bool {
	if _, ok := glyphNumber(name); ok {
		return true
	}
	if len(name) < 3 || len(name) > 5 || name[0]|0x20 != 'g' || !isDigit(name[1]) {
		return false
	}
	_, err := strconv.ParseUint(name[1:], 16, 16)
	return err == nil
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

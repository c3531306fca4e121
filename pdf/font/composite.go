package font

import (
	"strings"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// composite is a Type 0 font: codes of one to four bytes that select
// characters by id.
type composite struct {
	file     *cos.File
	unicode  unicodeCMap
	encoding *CMap                   // codes to CIDs
	form     codeForm                // what the codes are as Unicode
	cidText  func(cid uint32) string // by the character collection; nil if that is unknown
	program  func(cid uint32) string // by the font program; "" where it does not say
	metrics  cidMetrics              // along the line
	notes    []string                // what was damaged of the program

	glyphs []Glyph // those shown so far; the first stands for none
	// singles, pairs and longer are where in glyphs a code of one, two or more
	// bytes is, 0 if it is not; nearly all composite fonts have only pairs.
	singles [256]uint16
	pairs   [256]*[256]uint16
	longer  map[uint32]uint16
}

// maxGlyphs bounds the glyphs a composite font remembers.
const maxGlyphs = 1 << 16

func loadComposite(file *cos.File, d cos.Dict) *Font {
	var descendant cos.Dict
	if list := file.List(d["DescendantFonts"]); len(list) > 0 {
		descendant = file.Dict(list[0])
	}
	if descendant == nil {
		file.Note("the descendant of a font is missing")
	}
	c := &composite{file: file, unicode: loadUnicode(file, d), glyphs: make([]Glyph, 1, 64)}
	c.loadEncoding(file, d["Encoding"])
	ordering := c.encoding.ordering // what the CIDs are, whatever the font says they are
	for _, d := range []cos.Dict{descendant, file.Dict(d["Encoding"])} {
		if ordering == "" || ordering == "Identity" {
			ordering = string(file.String(file.Dict(d["CIDSystemInfo"])["Ordering"]))
		}
	}
	c.cidText = collectionText(ordering)
	c.program = c.programText(file, descendant)
	if c.encoding.vertical {
		c.metrics = verticalMetrics(file, descendant)
	} else {
		c.metrics = horizontalMetrics(file, descendant)
	}
	return &Font{Vertical: c.encoding.vertical, Em: 1, composite: c}
}

// loadEncoding reads the Encoding of a Type 0 font: the name of a predefined
// CMap, or an embedded one, which may build upon a predefined one. Where there
// is neither the codes are the CIDs.
func (c *composite) loadEncoding(file *cos.File, o cos.Object) {
	name := string(file.Name(o))
	s := file.Stream(o)
	if s != nil {
		c.encoding = embeddedCMap(file, s, maxUses)
		if c.encoding.HasCIDs() {
			return
		}
		name = string(file.Name(s.Dict["CMapName"]))
	}
	c.form = formOf(name)
	base, ok := predefined(name)
	switch {
	case s == nil && ok:
		c.encoding = base
	case s == nil:
		c.encoding = identityCMap()
		c.encoding.vertical = strings.HasSuffix(name, "-V")
	case ok:
		c.encoding.complete(base)
	default:
		c.encoding.identify()
	}
}

// formOf returns what the name of a predefined CMap says of its codes.
func formOf(name string) codeForm {
	switch {
	case strings.Contains(name, "UTF16"), strings.Contains(name, "UCS2"):
		return utf16Form
	case strings.Contains(name, "UTF8"):
		return utf8Form
	case strings.Contains(name, "UTF32"):
		return utf32Form
	}
	return opaque
}

// programText maps CIDs to text by what the embedded program says of its
// glyphs. The program is read at the first need: most fonts have a ToUnicode
// CMap for all they show.
func (c *composite) programText(file *cos.File, descendant cos.Dict) func(cid uint32) string {
	var p *program
	var glyphs sfnt // two bytes for each CID
	var byCID map[uint16]int
	read := false
	return func(cid uint32) string {
		if !read {
			c.notes = file.Noted(func() {
				p = loadProgram(file, file.Dict(descendant["FontDescriptor"]))
				if s := file.Stream(descendant["CIDToGIDMap"]); s != nil && p != nil {
					glyphs, _ = file.DecodePrefix(s, 2*(maxCID+1))
				}
			})
			read = file.BudgetErr() == nil // otherwise something may be missing
		}
		if p == nil {
			return ""
		}
		glyph := int(cid)
		switch {
		case glyphs != nil:
			glyph = glyphs.u16(2 * glyph)
		case p.cff != nil && p.cff.byCID:
			if byCID == nil {
				byCID = p.cff.glyphsByCID()
			}
			glyph = byCID[uint16(cid)]
		}
		if glyph <= 0 {
			return ""
		}
		return p.glyphText(glyph)
	}
}

func (c *composite) next(s []byte) (Glyph, int) {
	if c.encoding.sizes[s[0]] == 0 && !c.file.Spend(8*c.encoding.ranges()) {
		return Glyph{}, len(s)
	}
	n := c.encoding.Next(s)
	var known uint16
	switch n {
	case 1:
		known = c.singles[s[0]]
	case 2:
		if row := c.pairs[s[0]]; row != nil {
			known = row[s[1]]
		}
	default:
		known = c.longer[bigEndian(s[:n])]
	}
	if known == 0 {
		return c.learn(s[:n]), n
	}
	return c.glyphs[known], n
}

// learn looks up a code and remembers its glyph.
func (c *composite) learn(code []byte) Glyph {
	if !c.file.Spend(2048) { // look-ups walk chains of tables
		return Glyph{}
	}
	g := c.glyph(code)
	if len(c.glyphs) >= maxGlyphs || g.Text == "" && c.file.BudgetErr() != nil {
		return g // without a budget its text may be missing for now
	}
	place := uint16(len(c.glyphs))
	c.glyphs = append(c.glyphs, g)
	switch len(code) {
	case 1:
		c.singles[code[0]] = place
	case 2:
		row := c.pairs[code[0]]
		if row == nil {
			row = new([256]uint16)
			c.pairs[code[0]] = row
		}
		row[code[1]] = place
	default:
		if c.longer == nil {
			c.longer = map[uint32]uint16{}
		}
		c.longer[bigEndian(code)] = place
	}
	return g
}

// glyph looks up one code.
func (c *composite) glyph(code []byte) Glyph {
	value, size := bigEndian(code), len(code)
	cid := c.encoding.CID(value, size)
	return Glyph{
		Text:  c.text(value, size, cid),
		Width: c.metrics.advance(cid),
		Space: size == 1 && value == ' ',
	}
}

// text asks what knows best first (ISO 32000-2, 9.10.2).
func (c *composite) text(code uint32, size int, cid uint32) string {
	if text, ok := c.unicode.text(code, size, cid); ok {
		return text
	}
	if c.cidText != nil {
		if text := c.cidText(cid); text != "" {
			return text
		}
	}
	if text := c.form.text(code, size); text != "" {
		return text
	}
	return c.program(cid)
}

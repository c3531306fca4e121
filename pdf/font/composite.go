package font

import (
	"github.com/batchfleet/batchfleet/pdf/cos"
)

// composite is a Type 0 font: codes of one to four bytes that select
// characters by id.
type composite struct {
	toUnicode *CMap                   // nil if there is none
	encoding  *CMap                   // codes to CIDs; nil if they are the same
	codes     codeReader              // what is known of the codes without a table
	cidText   func(cid uint32) string // nil if unknown
	widths    spans[float64]
	width     float64 // of characters that are not in widths

	// seen holds the glyphs of two-byte codes shown so far, by their first and
	// second byte; nearly all composite fonts have only such codes.
	seen [256]*[256]seenGlyph
}

type seenGlyph struct {
	Glyph
	known bool
}

func loadComposite(file *cos.File, d cos.Dict) *Font {
	var descendant cos.Dict
	if list := file.List(d["DescendantFonts"]); len(list) > 0 {
		descendant = file.Dict(list[0])
	}
	c := &composite{toUnicode: toUnicode(file, d), codes: codeReader{size: fixed(2)}, width: 1}
	if w, ok := file.Number(descendant["DW"]); ok {
		c.width = w / 1000
	}
	c.loadWidths(file, file.Array(descendant["W"]))
	collection := string(file.String(file.Dict(descendant["CIDSystemInfo"])["Ordering"]))

	name, vertical := c.loadEncoding(file, d["Encoding"])
	if name != "" && name != "Identity-H" && name != "Identity-V" {
		if table, of, ok := predefined(name); ok {
			c.encoding = table
			if collection == "" || collection == "Identity" {
				collection = of
			}
		} else if codes, ok := legacy(name); ok && c.encoding == nil {
			c.codes = codes
		}
	}
	c.cidText = collectionText(collection)
	if c.cidText == nil && c.toUnicode == nil && c.codes.text == nil {
		c.cidText = programText(file, descendant)
	}
	return &Font{Vertical: vertical || isVertical(name), composite: c}
}

// loadEncoding reads the Encoding of a Type 0 font: the name of a predefined
// CMap, or an embedded one, which may build upon a predefined one.
func (c *composite) loadEncoding(file *cos.File, o cos.Object) (name string, vertical bool) {
	s := file.Stream(o)
	if s == nil {
		return string(file.Name(o)), false
	}
	data, _ := file.DecodePrefix(s, maxCMap) // a damaged CMap still maps some codes
	table := ParseCMap(data)
	mode, _ := file.Int(s.Dict["WMode"])
	vertical = table.vertical || mode == 1
	if table.HasCIDs() {
		c.encoding = table
		return string(file.Name(s.Dict["CMapName"])), vertical
	}
	if use := file.Name(s.Dict["UseCMap"]); use != "" {
		return string(use), vertical
	}
	if table.Use != "" {
		return table.Use, vertical
	}
	return string(file.Name(s.Dict["CMapName"])), vertical
}

// loadWidths reads the W array: "first [w w …]" or "first last w", in
// thousandths.
func (c *composite) loadWidths(file *cos.File, w cos.Array) {
	const maxCID = 0xffff
	for len(w) >= 2 {
		first, ok := file.Int(w[0])
		if !ok || first < 0 || first > maxCID {
			break
		}
		if list, isList := file.Resolve(w[1]).(cos.Array); isList {
			for i, o := range list[:min(len(list), maxCID+1)] {
				if v, ok := file.Number(o); ok {
					c.widths.add(0, uint32(first+i), uint32(first+i), v/1000)
				}
			}
			w = w[2:]
			continue
		}
		if len(w) < 3 {
			break
		}
		last, ok := file.Int(w[1])
		v, okWidth := file.Number(w[2])
		if ok && okWidth && last >= first && last <= maxCID {
			c.widths.add(0, uint32(first), uint32(last), v/1000)
		}
		w = w[3:]
	}
	c.widths.sort()
}

// programText maps CIDs to text by the Unicode cmap of the embedded TrueType
// program. It returns nil if that does not apply: with an explicit map from
// CIDs to glyphs the CIDs may be anything.
func programText(file *cos.File, descendant cos.Dict) func(uint32) string {
	program := file.Stream(file.Dict(descendant["FontDescriptor"])["FontFile2"])
	if program == nil || file.Stream(descendant["CIDToGIDMap"]) != nil {
		return nil
	}
	data, _ := file.DecodePrefix(program, maxProgram) // of a damaged program the cmap may be whole
	characters := glyphCharacters(data)
	return func(cid uint32) string {
		if r, ok := characters[int(cid)]; ok {
			return string(r)
		}
		return ""
	}
}

func (c *composite) next(s []byte) (Glyph, int) {
	size := c.codes.size
	if c.encoding != nil {
		size = c.encoding.Next
	}
	n := size(s)
	if n != 2 {
		return c.glyph(s[:n]), n
	}
	row := c.seen[s[0]]
	if row == nil {
		row = new([256]seenGlyph)
		c.seen[s[0]] = row
	}
	g := &row[s[1]]
	if !g.known {
		g.Glyph, g.known = c.glyph(s[:2]), true
	}
	return g.Glyph, 2
}

// glyph looks up one code.
func (c *composite) glyph(code []byte) Glyph {
	value, size := bigEndian(code), len(code)
	cid := value
	if c.encoding != nil {
		cid = c.encoding.CID(value, size)
	}
	g := Glyph{Text: c.text(code, value, cid), Width: c.width, Space: size == 1 && value == ' '}
	if w, ok := c.widths.find(0, cid); ok {
		g.Width = w.value
	}
	return g
}

func (c *composite) text(code []byte, value, cid uint32) string {
	if c.toUnicode != nil {
		for _, size := range [...]int{len(code), 2, 1} { // writers disagree on the length
			if text, ok := c.toUnicode.Text(value, size); ok {
				return text
			}
		}
	}
	if c.cidText != nil {
		if text := c.cidText(cid); text != "" {
			return text
		}
	}
	if c.codes.text != nil {
		return c.codes.text(code)
	}
	return ""
}

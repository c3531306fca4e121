package font

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
)

// maxCharacters bounds what is read from the cmap of a font program; Unicode
// has about 150 000 characters.
const maxCharacters = 200_000

// sfnt reads the numbers of a TrueType or OpenType font. Reading beyond the
// end gives zeros.
type sfnt []byte

func (b sfnt) u8(at int) int {
	if at < 0 || at >= len(b) {
		return 0
	}
	return int(b[at])
}

func (b sfnt) u16(at int) int {
	if at < 0 || at+2 > len(b) {
		return 0
	}
	return int(b[at])<<8 | int(b[at+1])
}

func (b sfnt) u32(at int) int { return b.u16(at)<<16 | b.u16(at+2) }

// table returns the offset of a table, and the bytes from there on up to its
// end; nil if there is none.
func (b sfnt) table(tag string) (at int, data sfnt) {
	const maxTables = 64
	for i := range min(b.u16(4), maxTables) {
		record := 12 + 16*i
		if record+16 > len(b) || string(b[record:record+4]) != tag {
			continue
		}
		at, length := b.u32(record+8), b.u32(record+12)
		if at >= len(b) {
			return 0, nil
		}
		return at, b[at:min(at+length, len(b))]
	}
	return 0, nil
}

// only returns a font with copies of some of the tables of b, so that the
// outlines, which are most of a font, need not stay in memory.
func (b sfnt) only(tags ...string) sfnt {
	const maxTable = 4 << 20 // 65 536 names of glyphs have about 1 MB
	small := append(sfnt{}, b[:min(4, len(b))]...)
	small = append(small, 0, byte(len(tags)), 0, 0, 0, 0, 0, 0)
	at := len(small) + 16*len(tags)
	var tables []byte
	for _, tag := range tags {
		_, data := b.table(tag)
		data = data[:min(len(data), maxTable)]
		small = append(small, tag...)
		small = append(small, 0, 0, 0, 0)
		small = binary.BigEndian.AppendUint32(small, uint32(at+len(tables)))
		small = binary.BigEndian.AppendUint32(small, uint32(len(data)))
		tables = append(tables, data...)
	}
	return append(small, tables...)
}

// subtable is one of the maps of a cmap table.
type subtable struct{ platform, encoding, at int }

// cmaps returns the subtables of the cmap table.
func (b sfnt) cmaps() (found []subtable) {
	const maxSubtables = 32
	table, data := b.table("cmap")
	if data == nil {
		return nil
	}
	for k := range min(b.u16(table+2), maxSubtables) {
		record := table + 4 + 8*k
		found = append(found, subtable{b.u16(record), b.u16(record + 2), table + b.u32(record+4)})
	}
	return found
}

// unicodeMaps returns the offsets of the Unicode cmap tables, the widest first.
func (b sfnt) unicodeMaps() []int {
	found := slices.DeleteFunc(b.cmaps(), func(s subtable) bool {
		return s.platform != 0 && (s.platform != 3 || s.encoding != 1 && s.encoding != 10)
	})
	slices.SortStableFunc(found, func(x, y subtable) int { return cmp.Compare(y.encoding, x.encoding) })
	var offsets []int
	for _, s := range found {
		offsets = append(offsets, s.at)
	}
	return offsets
}

// glyphCharacters returns the character of every glyph of a TrueType or
// OpenType font program, by its Unicode cmap tables (formats 4 and 12). Of
// several characters of one glyph it takes the lowest.
func glyphCharacters(program []byte) map[int]rune {
	b := sfnt(program)
	characters := map[int]rune{}
	left := maxCharacters
	put := func(glyph int, r rune) bool {
		if have, ok := characters[glyph]; glyph != 0 && (!ok || r < have) {
			characters[glyph] = r
		}
		left--
		return left > 0
	}
	for _, table := range b.unicodeMaps() {
		switch b.u16(table) {
		case 4:
			b.format4(table, put)
		case 12:
			b.format12(table, put)
		}
	}
	return characters
}

// format4 calls put for segments of 16-bit characters until it returns false.
// Characters that have no glyph are put too, with glyph 0: they count as work.
func (b sfnt) format4(table int, put func(glyph int, r rune) bool) {
	for i := range b.u16(table+6) / 2 {
		s := b.segment(table, i)
		for c := s.first; c <= s.last && c < 0xffff; c++ {
			if !put(b.segmentGlyph(s, c), rune(c)) {
				return
			}
		}
	}
}

// segment is a run of characters of a table of format 4.
type segment struct {
	first, last, delta int
	glyphs             int // offset of the list of glyphs; 0 for none
}

func (b sfnt) segment(table, i int) segment {
	n := b.u16(table+6) / 2
	ends, starts := table+14, table+16+2*n
	s := segment{first: b.u16(starts + 2*i), last: b.u16(ends + 2*i), delta: b.u16(starts + 2*n + 2*i)}
	if at := starts + 4*n + 2*i; b.u16(at) != 0 {
		s.glyphs = at + b.u16(at)
	}
	return s
}

func (b sfnt) segmentGlyph(s segment, c int) int {
	glyph := c
	if s.glyphs != 0 {
		if glyph = b.u16(s.glyphs + 2*(c-s.first)); glyph == 0 {
			return 0
		}
	}
	return (glyph + s.delta) & 0xffff
}

// format12 calls put for groups of 32-bit characters until it returns false.
func (b sfnt) format12(table int, put func(glyph int, r rune) bool) {
	for i := range min(b.u32(table+12), len(b)/12) {
		group := table + 16 + 12*i
		first, last, glyph := b.u32(group), b.u32(group+4), b.u32(group+8)
		for c := first; c <= last && c <= 0x10ffff; c++ {
			if !put(glyph+c-first, rune(c)) {
				return
			}
		}
	}
}

// glyph returns the glyph of a code by the cmap subtable at the given offset,
// 0 for none. It knows the formats of fonts in use: 0, 4, 6 and 12.
func (b sfnt) glyph(table, code int) int {
	switch b.u16(table) {
	case 0:
		if code < 256 {
			return b.u8(table + 6 + code)
		}
	case 4:
		n := b.u16(table+6) / 2
		i := sort.Search(n, func(i int) bool { return code <= b.u16(table+14+2*i) })
		if s := b.segment(table, i); i < n && code >= s.first {
			return b.segmentGlyph(s, code)
		}
	case 6:
		if i := code - b.u16(table+6); i >= 0 && i < b.u16(table+8) {
			return b.u16(table + 10 + 2*i)
		}
	case 12:
		n := min(b.u32(table+12), len(b)/12)
		group := table + 16 + 12*sort.Search(n, func(i int) bool { return code <= b.u32(table+20+12*i) })
		if first := b.u32(group); group < table+16+12*n && code >= first {
			return b.u32(group+8) + code - first
		}
	}
	return 0
}

// post returns the names of the glyphs as the table "post" has them, nil if it
// has none.
func (b sfnt) post() []string {
	_, t := b.table("post")
	switch t.u32(0) {
	case 0x10000:
		return macGlyphs()
	case 0x20000:
	default:
		return nil
	}
	n := t.u16(32)
	var own []string
	for at := 34 + 2*n; at < len(t) && len(own) < n; {
		end := at + 1 + t.u8(at)
		if end > len(t) {
			break
		}
		own = append(own, string(t[at+1:end]))
		at = end
	}
	names := make([]string, 0, n)
	for i := range n {
		name, index := "", t.u16(34+2*i)
		if mac := macGlyphs(); index < len(mac) {
			name = mac[index]
		} else if index -= len(mac); index < len(own) {
			name = own[index]
		}
		names = append(names, name)
	}
	return names
}

// advance returns how far a glyph moves the pen, for a font size of 1. ok is
// false if the font does not say.
func (b sfnt) advance(glyph int) (width float64, ok bool) {
	_, head := b.table("head")
	_, hhea := b.table("hhea")
	_, hmtx := b.table("hmtx")
	unitsPerEm, n := head.u16(18), hhea.u16(34)
	if unitsPerEm == 0 || n == 0 || glyph < 0 {
		return 0, false
	}
	at := 4 * min(glyph, n-1) // the last width is that of all further glyphs
	return float64(hmtx.u16(at)) / float64(unitsPerEm), at+2 <= len(hmtx)
}

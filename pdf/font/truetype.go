package font

import (
	"cmp"
	"slices"
)

// maxCharacters bounds what is read from the cmap of a font program; Unicode
// has about 150 000 characters.
const maxCharacters = 200_000

// sfnt reads the numbers of a TrueType or OpenType font. Reading beyond the
// end gives zeros.
type sfnt []byte

func (b sfnt) u16(at int) int {
	if at < 0 || at+2 > len(b) {
		return 0
	}
	return int(b[at])<<8 | int(b[at+1])
}

func (b sfnt) u32(at int) int { return b.u16(at)<<16 | b.u16(at+2) }

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
	for _, table := range b.cmaps() {
		switch b.u16(table) {
		case 4:
			b.format4(table, put)
		case 12:
			b.format12(table, put)
		}
	}
	return characters
}

// cmaps returns the offsets of the Unicode cmap tables, the widest first.
func (b sfnt) cmaps() []int {
	const maxTables, maxSubtables = 64, 32
	type subtable struct{ encoding, offset int }
	var found []subtable
	for i := range min(b.u16(4), maxTables) {
		record := 12 + 16*i
		if record+16 > len(b) || string(b[record:record+4]) != "cmap" {
			continue
		}
		table := b.u32(record + 8)
		for k := range min(b.u16(table+2), maxSubtables) {
			platform, encoding := b.u16(table+4+8*k), b.u16(table+6+8*k)
			if platform == 0 || platform == 3 && (encoding == 1 || encoding == 10) {
				found = append(found, subtable{encoding, table + b.u32(table+8+8*k)})
			}
		}
	}
	slices.SortStableFunc(found, func(x, y subtable) int { return cmp.Compare(y.encoding, x.encoding) })
	var offsets []int
	for _, s := range found {
		offsets = append(offsets, s.offset)
	}
	return offsets
}

// format4 calls put for segments of 16-bit characters until it returns false.
func (b sfnt) format4(table int, put func(glyph int, r rune) bool) {
	n := b.u16(table+6) / 2
	ends, starts := table+14, table+16+2*n
	deltas, offsets := starts+2*n, starts+4*n
	for i := range n {
		last, delta, offset := b.u16(ends+2*i), b.u16(deltas+2*i), b.u16(offsets+2*i)
		first := b.u16(starts + 2*i)
		for c := first; c <= last && c < 0xffff; c++ {
			glyph := c
			if offset != 0 {
				if glyph = b.u16(offsets + 2*i + offset + 2*(c-first)); glyph == 0 {
					continue
				}
			}
			if !put((glyph+delta)&0xffff, rune(c)) {
				return
			}
		}
	}
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

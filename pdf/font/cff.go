package font

import "bytes"

// cffFont is what a font program in the Compact Font Format (Adobe Technical
// Note 5176) says of its glyphs.
type cffFont struct {
	strings cffIndex
	// charset has the string that names each glyph, or its CID if byCID.
	charset []uint16
	byCID   bool
	// encoding has the string that names the glyph of each code; 0 is .notdef.
	// It is empty if the font uses the standard encoding.
	encoding [256]uint16
}

// Operators of a top DICT; 0x0c00 marks those of two bytes.
const (
	cffCharset     = 15
	cffEncoding    = 16
	cffCharStrings = 17
	cffROS         = 0x0c00 | 30
)

// maxCFFStrings bounds the names of a font program, in bytes: 65 536 glyphs
// with names of 16 characters.
const maxCFFStrings = 1 << 20

// parseCFF reads the first font of a CFF program, or returns nil if it is none.
func parseCFF(program []byte) *cffFont {
	b := cffData(program)
	if b.u8(0) != 1 { // major version
		return nil
	}
	_, next := b.index(b.u8(2)) // names of the fonts
	fonts, next := b.index(next)
	f := &cffFont{}
	strings := next
	if _, next = b.index(strings); next > strings && next <= min(len(b), strings+maxCFFStrings) {
		f.strings, _ = cffData(bytes.Clone(b[strings:next])).index(0) // the rest need not stay in memory
	}
	top := fonts.at(0)
	if len(top) == 0 {
		return nil
	}
	d := top.dict()
	f.byCID = d[cffROS] != nil
	glyphs, _ := b.index(d.last(cffCharStrings))
	f.loadCharset(b, d.last(cffCharset), min(glyphs.count, 1<<16))
	if !f.byCID {
		f.loadEncoding(b, d.last(cffEncoding))
	}
	return f
}

// name returns the name of a glyph, "" for none.
func (f *cffFont) name(glyph int) string {
	if f.byCID || glyph < 0 || glyph >= len(f.charset) {
		return ""
	}
	return f.string(int(f.charset[glyph]))
}

// glyphsByCID returns the first glyph of every CID of a font that is byCID.
func (f *cffFont) glyphsByCID() map[uint16]int {
	glyphs := make(map[uint16]int, len(f.charset))
	for glyph, cid := range f.charset {
		if _, ok := glyphs[cid]; !ok {
			glyphs[cid] = glyph
		}
	}
	return glyphs
}

// codeName returns the name of the glyph of a code, "" for none.
func (f *cffFont) codeName(code byte) string {
	if sid := f.encoding[code]; sid != 0 {
		return f.string(int(sid))
	}
	return ""
}

// string returns a string by its number: the standard strings go first.
func (f *cffFont) string(sid int) string {
	all := cffStandard()
	if sid < len(all) {
		return all[sid]
	}
	if s := f.strings.at(sid - len(all)); len(s) <= maxGlyphName {
		return string(s)
	}
	return ""
}

// loadCharset reads the names of n glyphs.
func (f *cffFont) loadCharset(b cffData, at, n int) {
	if n == 0 || at < 0 || f.byCID && at == 0 {
		return
	}
	f.charset = make([]uint16, 1, n) // glyph 0 is .notdef and not listed
	if at <= 2 && !f.byCID {
		for _, r := range [][]sidRange{{{0, 228}}, cffExpert, cffExpertSubset}[max(0, at)] {
			f.addNames(int(r.first), int(r.last)-int(r.first)+1)
		}
		f.charset = f.charset[:min(len(f.charset), n)]
		return
	}
	format := b.u8(at)
	for at++; len(f.charset) < n && at < len(b); {
		first, count := b.u16(at), 1
		switch at += 2; format {
		case 1:
			count += b.u8(at)
			at++
		case 2:
			count += b.u16(at)
			at += 2
		}
		f.addNames(first, min(count, n-len(f.charset)))
	}
}

func (f *cffFont) addNames(first, n int) {
	for sid := first; sid < first+n; sid++ {
		if sid != 0 {
			f.charset = append(f.charset, uint16(sid))
		}
	}
}

func (f *cffFont) loadEncoding(b cffData, at int) {
	switch at {
	case 0:
		return
	case 1:
		for _, r := range cffExpertCodes {
			for i := range r.n {
				f.encoding[r.code+i] = uint16(r.first + i)
			}
		}
		return
	}
	format, n := b.u8(at), b.u8(at+1)
	at += 2
	glyph := 1
	for range n {
		code, count := b.u8(at), 1
		if at++; format&0x7f == 1 {
			count += b.u8(at)
			at++
		}
		for ; count > 0; count-- {
			if code < 256 && glyph < len(f.charset) {
				f.encoding[code] = f.charset[glyph]
			}
			code++
			glyph++
		}
	}
	if format&0x80 == 0 {
		return
	}
	supplements := b.u8(at)
	for at++; supplements > 0; supplements-- {
		f.encoding[b.u8(at)] = uint16(b.u16(at + 1))
		at += 3
	}
}

// cffData reads numbers of a CFF program. Reading beyond the end gives zeros.
type cffData []byte

func (b cffData) u8(at int) int {
	if at < 0 || at >= len(b) {
		return 0
	}
	return int(b[at])
}

func (b cffData) u16(at int) int { return b.u8(at)<<8 | b.u8(at+1) }

// number reads a number of size bytes, at most 4.
func (b cffData) number(at, size int) (v int) {
	for i := range size {
		v = v<<8 | b.u8(at+i)
	}
	return v
}

// cffIndex is a list of byte strings.
type cffIndex struct {
	b          cffData
	count      int
	offsets    int // where they begin
	offsetSize int
}

// index reads the index at the given offset, and returns what follows it. Of
// an index that cannot be it returns an empty one.
func (b cffData) index(at int) (x cffIndex, next int) {
	x = cffIndex{b: b, count: b.u16(at), offsets: at + 3, offsetSize: b.u8(at + 2)}
	if x.count == 0 || at < 0 {
		return cffIndex{}, at + 2
	}
	if x.offsetSize < 1 || x.offsetSize > 4 || x.data() > len(b) {
		return cffIndex{}, len(b)
	}
	return x, x.data() + b.number(x.offsets+x.count*x.offsetSize, x.offsetSize)
}

// data returns where the strings begin, less one, because offsets count from 1.
func (x *cffIndex) data() int { return x.offsets + (x.count+1)*x.offsetSize - 1 }

// at returns string i, nil if there is none.
func (x *cffIndex) at(i int) cffData {
	if i < 0 || i >= x.count {
		return nil
	}
	entry := x.offsets + i*x.offsetSize
	from := x.data() + x.b.number(entry, x.offsetSize)
	to := x.data() + x.b.number(entry+x.offsetSize, x.offsetSize)
	if from > to || to > len(x.b) {
		return nil
	}
	return x.b[from:to]
}

// cffDict has the operands of each operator.
type cffDict map[int][]int

// last returns the last operand of an operator, 0 if it is not there, as is
// the default of those that matter here.
func (d cffDict) last(operator int) int {
	if v := d[operator]; len(v) > 0 {
		return v[len(v)-1]
	}
	return 0
}

// dict reads a DICT. Operands that are not integers count as 0: no operator
// that matters here has one.
func (b cffData) dict() cffDict {
	const maxOperators, maxOperands = 128, 48
	d := cffDict{}
	operands := []int{}
	for at := 0; at < len(b) && len(d) < maxOperators; {
		first := b.u8(at)
		at++
		switch {
		case first <= 21:
			if first == 12 {
				first = 0x0c00 | b.u8(at)
				at++
			}
			d[first] = operands
			operands = []int{}
			continue
		case first == 28:
			operands = append(operands, int(int16(b.u16(at))))
			at += 2
		case first == 29:
			operands = append(operands, int(int32(b.number(at, 4))))
			at += 4
		case first == 30:
			for at < len(b) && b[at]&0x0f != 0x0f && b[at]>>4 != 0x0f {
				at++
			}
			at++
			operands = append(operands, 0)
		case first >= 32 && first <= 246:
			operands = append(operands, first-139)
		case first >= 247 && first <= 250:
			operands = append(operands, (first-247)*256+b.u8(at)+108)
			at++
		case first >= 251 && first <= 254:
			operands = append(operands, -(first-251)*256-b.u8(at)-108)
			at++
		}
		if len(operands) > maxOperands {
			operands = operands[1:]
		}
	}
	return d
}

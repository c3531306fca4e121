package cos

import (
	"bytes"
	"cmp"
	"slices"
)

// indirect is an object as it stands in the file.
type indirect struct {
	num      uint32
	object   Object
	elements int
	wrong    string // with the object, for people; empty if nothing is
}

// objectAt parses "n g obj …" at offset. A stream whose Length is a reference
// is followed there only if follow is set: while the cross-reference is being
// read there is nothing to follow with.
func (f *File) objectAt(offset int, follow bool) (indirect, bool) {
	if offset < 0 || offset >= len(f.data) || f.over {
		return indirect{}, false
	}
	p := Parser{Lexer: Lexer{src: f.data, pos: offset}}
	defer func() { f.Spend(p.pos - offset) }() // also when there is no object, and for what is skipped after it
	num, gen, word := p.Lexer.Next(), p.Lexer.Next(), p.Lexer.Next()
	if num.Kind != Integer || gen.Kind != Integer || word.Kind != Keyword || num.Number < 0 || num.Number > maxObject {
		return indirect{}, false
	}
	if !bytes.HasPrefix(word.Bytes, []byte("obj")) {
		return indirect{}, false
	}
	p.pos -= len(word.Bytes) - len("obj") // "1 0 objnull"
	o, _, _ := p.Next()
	wrong := p.wrong()
	id := Ref{uint32(num.Number), uint16(gen.Int())}
	size := p.pos - offset
	if f.crypt != nil {
		o = f.crypt.decryptStrings(f, o, id)
	}
	if d, ok := o.(Dict); ok {
		p.skipSpace()
		if bytes.HasPrefix(p.src[p.pos:], []byte("stream")) {
			s := &Stream{Dict: d, id: id, encrypted: f.crypt != nil}
			var cut string
			s.raw, cut = f.rawStream(d, p.pos+len("stream"), follow)
			o, wrong = s, cmp.Or(wrong, cut)
			return indirect{id.Num, o, p.elements + 1 + size/elementBytes, wrong}, true
		}
	}
	return indirect{id.Num, o, p.elements + 1 + size/elementBytes, wrong}, true
}

// rawStream returns the bytes of the stream whose keyword ends at start, and
// what is wrong with it.
func (f *File) rawStream(d Dict, start int, follow bool) (raw []byte, wrong string) {
	if start < len(f.data) && f.data[start] == '\r' {
		start++
	}
	if start < len(f.data) && f.data[start] == '\n' {
		start++
	}
	length := d["Length"]
	if follow {
		length = f.Resolve(length)
	}
	if n, ok := length.(int); ok && n >= 0 && n <= len(f.data)-start && f.endsStream(start+n) {
		return f.data[start : start+n], ""
	}
	wrong = "has a wrong length"
	end := f.streamEnd(start)
	if end >= len(f.data) {
		wrong = "is cut off"
	}
	// The end of line before "endstream" is not part of the data.
	if end > start && f.data[end-1] == '\n' {
		end--
	}
	if end > start && f.data[end-1] == '\r' {
		end--
	}
	return f.data[start:end], wrong
}

// endsStream reports whether a stream may end at offset.
func (f *File) endsStream(offset int) bool {
	l := Lexer{src: f.data, pos: offset}
	for l.pos < len(l.src) && l.pos < offset+16 && class[l.src[l.pos]] == space {
		l.pos++
	}
	rest := f.data[l.pos:]
	return bytes.HasPrefix(rest, []byte("endstream")) || bytes.HasPrefix(rest, []byte("endobj"))
}

// nearby is how far the end of a stream is looked for before the whole file is.
const nearby = 1 << 20

// streamEnd returns the offset of the first "endstream" from start on, or the
// end of the file.
func (f *File) streamEnd(start int) int {
	if i := bytes.Index(f.data[start:min(len(f.data), start+nearby)], []byte("endstream")); i >= 0 {
		return start + i
	}
	f.Spend(nearby) // or a file of streams without ends could be searched over and over
	ends := f.scanned.ends()
	if i, _ := slices.BinarySearch(ends, start); i < len(ends) {
		return ends[i]
	}
	return len(f.data)
}

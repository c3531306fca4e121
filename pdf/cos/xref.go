package cos

import "bytes"

// readXref follows the chain of cross-reference sections from the end of the
// file. It returns false if any part of it is damaged.
func (f *File) readXref() bool {
	f.xref, f.Trailer = map[uint32]entry{}, nil
	offset, ok := f.startXref()
	seen := map[int]bool{}
	for ok && !seen[offset] && !f.over { // a chain in a circle has ended, too
		seen[offset] = true
		f.section++
		section, valid := f.xrefSection(offset)
		if !valid {
			return false
		}
		if f.Trailer == nil {
			f.Trailer = section
		}
		// A hybrid file hides its object streams from readers that know only
		// tables: to them the objects are free.
		if hidden, isHybrid := section["XRefStm"].(int); isHybrid && !seen[hidden] {
			seen[hidden] = true
			if _, valid := f.xrefSection(hidden); !valid {
				return false
			}
		}
		offset, ok = asInt(section["Prev"])
		if offset == 0 { // written by some producers for "there is none"
			break
		}
	}
	return f.Trailer["Root"] != nil
}

// startXref returns the offset after the last "startxref".
func (f *File) startXref() (int, bool) {
	const window = 2048 // the standard says 1024; files with rubbish behind the end exist
	tail := max(0, len(f.data)-window)
	i := bytes.LastIndex(f.data[tail:], []byte("startxref"))
	if i < 0 {
		return 0, false
	}
	l := Lexer{src: f.data, pos: tail + i + len("startxref")}
	t := l.Next()
	if cutUpdate(f.data[l.pos:]) {
		f.Note("the file ends in the middle of an update")
	}
	return t.Int(), t.Kind == Integer && t.Number > 0
}

// xrefSection reads the table or stream at offset and returns its trailer.
// Entries that are known already are newer and stay.
func (f *File) xrefSection(offset int) (Dict, bool) {
	if offset < 0 || offset >= len(f.data) {
		return nil, false
	}
	p := Parser{Lexer: Lexer{src: f.data, pos: offset}}
	t := p.Lexer.Next()
	switch {
	case t.Kind == Keyword && string(t.Bytes) == "xref":
		trailer, ok := f.xrefTable(&p)
		f.Spend(p.pos - offset)
		return trailer, ok
	case t.Kind == Integer:
		return f.xrefStream(offset)
	}
	return nil, false
}

// xrefTable reads the subsections behind the word "xref" and the trailer.
func (f *File) xrefTable(p *Parser) (Dict, bool) {
	for {
		t := p.Lexer.Next()
		if t.Kind == Keyword && string(t.Bytes) == "trailer" {
			o, _, _ := p.Next()
			trailer, ok := o.(Dict)
			return trailer, ok
		}
		count := p.Lexer.Next()
		if t.Kind != Integer || count.Kind != Integer || count.Number < 0 || t.Number < 0 {
			return nil, false
		}
		if !f.xrefRows(p, t.Int(), count.Int()) {
			return nil, false
		}
	}
}

// xrefRows reads count rows "offset generation n|f" for the objects from first
// on. Fewer rows are taken as they are.
func (f *File) xrefRows(p *Parser, first, count int) bool {
	for i := range count {
		start := p.pos
		offset, gen, use := p.Lexer.Next(), p.Lexer.Next(), p.Lexer.Next()
		if offset.Kind != Integer || gen.Kind != Integer || use.Kind != Keyword {
			f.Note("the cross-reference is shorter than it says")
			p.pos = start
			return true
		}
		if i == 0 && first == 1 && gen.Number == 65535 {
			first = 0 // the head of the free list is object 0: the table is off by one
		}
		var ok bool
		switch string(use.Bytes) {
		case "n":
			ok = f.addEntry(first+i, entry{kind: entryOffset, offset: offset.Int()})
		case "f":
			ok = f.addEntry(first+i, entry{})
		}
		if !ok {
			return false
		}
	}
	return true
}

// addEntry keeps e for object n unless there is an entry already, of a newer
// section or one that does not just call the object free. It returns false when no
// honest file has so many objects or such a number.
func (f *File) addEntry(n int, e entry) bool {
	if n < 0 || n > maxObject {
		return false
	}
	e.section = f.section
	if old, ok := f.xref[uint32(n)]; ok && (old.kind != entryFree || old.section != e.section) {
		return true
	}
	// An object takes at least a few bytes. Without this a few kilobytes of
	// compressed zeros would become eight million entries.
	if len(f.xref) > 1<<16+len(f.data) {
		return false
	}
	f.xref[uint32(n)] = e
	return true
}

// xrefStream reads the cross-reference stream at offset.
func (f *File) xrefStream(offset int) (Dict, bool) {
	at, ok := f.objectAt(offset, false)
	s, isStream := at.object.(*Stream)
	if !ok || !isStream || s.Dict["Type"] != Name("XRef") {
		return nil, false
	}
	s.encrypted = false
	if at.wrong != "" {
		f.Note("the cross-reference %s", at.wrong)
	}
	data, _ := f.Decode(s) // rows that cannot be read will be missed below
	widths, _ := s.Dict["W"].(Array)
	if len(widths) < 3 {
		return nil, false
	}
	var w [3]int
	for i := range w {
		w[i], _ = widths[i].(int)
		if w[i] < 0 || w[i] > 8 {
			return nil, false
		}
	}
	if w[0]+w[1]+w[2] == 0 {
		return nil, false
	}
	index, _ := s.Dict["Index"].(Array)
	if index == nil {
		index = Array{0, s.Dict["Size"]}
	}
	for i := 0; i+1 < len(index); i += 2 {
		first, _ := index[i].(int)
		count, _ := index[i+1].(int)
		if data, ok = f.packedRows(data, w, first, count); !ok {
			return nil, false
		}
	}
	return s.Dict, true
}

// packedRows reads count rows of three big-endian fields of w bytes, and
// returns the rest of data.
func (f *File) packedRows(data []byte, w [3]int, first, count int) ([]byte, bool) {
	size := w[0] + w[1] + w[2]
	if !f.Spend(8 * max(0, min(count, len(data)/size))) {
		return nil, false
	}
	if count > len(data)/size {
		f.Note("the cross-reference is shorter than it says")
	}
	for i := 0; i < count && len(data) >= size; i++ {
		kind := 1 // when the field is missing
		if w[0] > 0 {
			kind = bigEndian(data[:w[0]])
		}
		where := bigEndian(data[w[0] : w[0]+w[1]])
		data = data[size:]
		ok := true
		switch kind {
		case 0:
			ok = f.addEntry(first+i, entry{})
		case 1:
			ok = f.addEntry(first+i, entry{kind: entryOffset, offset: where})
		case 2:
			ok = f.addEntry(first+i, entry{kind: entryPacked, offset: where})
		}
		if !ok {
			return nil, false
		}
	}
	return data, true
}

func bigEndian(b []byte) int {
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return int(v & (1<<48 - 1)) // longer offsets lead nowhere anyhow
}

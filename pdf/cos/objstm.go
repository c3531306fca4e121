package cos

// maxUnpacked bounds the decoded object streams kept, in bytes. One that is
// larger is kept alone.
const maxUnpacked = 32 << 20

// objectStream is a decoded stream of objects.
type objectStream struct {
	data    []byte
	offsets map[uint32]int // by object number
}

// objectStream returns the decoded object stream with number n, or nil.
func (f *File) objectStream(n uint32) *objectStream {
	if s, ok := f.packed[n]; ok {
		return s
	}
	if f.xref[n].kind == entryPacked {
		return nil // streams cannot be in streams
	}
	s, ok := f.load(n).(*Stream)
	if !ok {
		return nil
	}
	data, _ := f.Decode(s) // a damaged stream has fewer objects
	if f.unpacked+len(data) > maxUnpacked {
		f.packed, f.unpacked = map[uint32]*objectStream{}, 0
	}
	count, _ := f.Int(s.Dict["N"])
	first, _ := f.Int(s.Dict["First"])
	o := &objectStream{data: data, offsets: map[uint32]int{}}
	l := Lexer{src: data}
	for range count {
		num, offset := l.Next(), l.Next()
		if num.Kind != Integer || offset.Kind != Integer || num.Number < 0 || num.Number > maxObject {
			break
		}
		o.offsets[uint32(num.Number)] = first + offset.Int()
	}
	f.spend(l.pos)
	f.packed[n] = o
	f.unpacked += len(data)
	return o
}

// unpack returns object n of the object stream with number stream, and how
// many elements it has.
func (f *File) unpack(stream, n uint32) (Object, int) {
	s := f.objectStream(stream)
	if s == nil {
		return nil, 1
	}
	offset, ok := s.offsets[n]
	if !ok || offset < 0 || offset >= len(s.data) {
		return nil, 1
	}
	p := Parser{Lexer: Lexer{src: s.data, pos: offset}}
	o, _, _ := p.Next()
	f.spend(p.pos - offset)
	return o, p.elements + 1
}

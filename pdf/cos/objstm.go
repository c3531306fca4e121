package cos

import (
	"fmt"
	"sync"
)

// maxUnpacked bounds the decoded object streams kept, in bytes. One that is
// larger is kept alone.
const maxUnpacked = 32 << 20

// objectStream is a decoded stream of objects. It does not change.
type objectStream struct {
	data    []byte
	offsets map[uint32]int // by object number
	damaged bool           // so any of its objects may be less than it was
}

// objectStreams keeps decoded object streams, for all clones of a file: pages
// that are read at the same time often have their objects in one stream. It is
// safe for concurrent use.
type objectStreams struct {
	mu      sync.Mutex
	streams map[uint32]*objectStream // by number
	size    int                      // bytes
}

func (c *objectStreams) get(n uint32) *objectStream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[n]
}

func (c *objectStreams) put(n uint32, s *objectStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams == nil || c.size+len(s.data) > maxUnpacked {
		c.streams, c.size = map[uint32]*objectStream{}, 0
	}
	if c.streams[n] == nil { // another reader may have been faster
		c.streams[n] = s
		c.size += len(s.data)
	}
}

// objectStream returns the decoded object stream with number n, or nil.
func (f *File) objectStream(n uint32) *objectStream {
	if s := f.packed.get(n); s != nil {
		return s
	}
	if f.xref[n].kind == entryPacked {
		return nil // streams cannot be in streams
	}
	s, ok := f.load(n).(*Stream)
	if !ok {
		return nil
	}
	data, err := f.Decode(s) // a damaged stream has fewer objects
	count, _ := f.Int(s.Dict["N"])
	first, _ := f.Int(s.Dict["First"])
	o := &objectStream{data: data, offsets: map[uint32]int{}, damaged: err != nil || f.faults[n] != ""}
	l := Lexer{src: data}
	for range count {
		num, offset := l.Next(), l.Next()
		if num.Kind != Integer || offset.Kind != Integer || num.Number < 0 || num.Number > maxObject {
			o.damaged = true
			break
		}
		o.offsets[uint32(num.Number)] = first + offset.Int()
	}
	if f.Spend(l.pos) { // else it may lack some
		f.packed.put(n, o)
	}
	return o
}

// unpack returns object n of the object stream with number stream, how many
// elements it has, and what is wrong with it.
func (f *File) unpack(stream, n uint32) (o Object, elements int, wrong string) {
	s := f.objectStream(stream)
	if s == nil {
		return nil, 1, "is missing"
	}
	offset, ok := s.offsets[n]
	if !ok || offset < 0 || offset >= len(s.data) {
		return nil, 1, "is missing"
	}
	p := Parser{Lexer: Lexer{src: s.data, pos: offset}}
	o, _, _ = p.Next()
	f.Spend(p.pos - offset)
	wrong = p.wrong()
	if s.damaged {
		wrong = fmt.Sprintf("is part of object %d, which is damaged", stream)
	}
	return o, p.elements + 1 + (p.pos-offset)/elementBytes, wrong
}

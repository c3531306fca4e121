package cos

const (
	// maxDepth bounds how deep arrays and dictionaries nest; real files stay
	// below 20.
	maxDepth = 100
	// maxElements bounds the values of one top-level object, so that a few
	// megabytes of "0 0 0 …" do not become gigabytes of objects. A page tree
	// may list a million pages in one array.
	maxElements = 2 << 20
)

// Parser builds objects from tokens. Like its [Lexer] it never fails; damaged
// syntax yields as much of an object as can be understood.
type Parser struct {
	Lexer
	depth    int
	elements int
	cut      bool // an array or dictionary has no end, or exceeds a limit
	strange  bool // a dictionary has what is no entry
}

// wrong returns what is wrong with the object that was read last, for people.
func (p *Parser) wrong() string {
	switch {
	case p.cut:
		return "is cut off"
	case p.strange:
		return "has broken syntax"
	}
	return ""
}

// NewParser returns a parser that reads src, which must not change meanwhile.
func NewParser(src []byte) *Parser { return &Parser{Lexer: Lexer{src: src}} }

// Next returns the next object, or the keyword that stands in its place; at
// the end of the source the keyword is empty and ok is false. Closing brackets
// without an opening one are skipped.
func (p *Parser) Next() (o Object, keyword string, ok bool) {
	p.Recycle()
	p.elements, p.depth, p.cut, p.strange = 0, 0, false, false
	for {
		t := p.Lexer.Next()
		switch t.Kind {
		case EOF:
			return nil, "", false
		case ArrayClose, DictClose:
			continue
		case Keyword:
			if o, isValue := constant(t.Bytes); isValue {
				return o, "", true
			}
			return nil, string(t.Bytes), true
		case Integer, Real, StringToken, NameToken, ArrayOpen, DictOpen:
		}
		return p.value(t), "", true
	}
}

// constant returns the object that a keyword stands for, if it is one.
func constant(word []byte) (Object, bool) {
	switch string(word) {
	case "true":
		return true, true
	case "false":
		return false, true
	case "null":
		return nil, true
	}
	return nil, false
}

// value returns the object that begins with t, which is not a keyword, not a
// closing bracket and not the end.
func (p *Parser) value(t Token) Object {
	p.elements++
	switch t.Kind {
	case Integer:
		return p.reference(t)
	case Real:
		return t.Number
	case StringToken:
		return String(t.Bytes)
	case NameToken:
		return Name(t.Bytes)
	case ArrayOpen:
		return p.array()
	case DictOpen:
		return p.dict()
	case EOF, Keyword, ArrayClose, DictClose:
	}
	return nil
}

// full reports whether the object being read may not grow any more.
func (p *Parser) full() bool { return p.depth >= maxDepth || p.elements >= maxElements }

// reference returns the reference "n g R" that begins with the integer t, or
// the integer.
func (p *Parser) reference(t Token) Object {
	if t.Number < 0 || t.Number > maxObject {
		return t.Int()
	}
	start := p.pos
	p.skipSpace()
	if p.pos < len(p.src) && '0' <= p.src[p.pos] && p.src[p.pos] <= '9' {
		gen := p.Lexer.Next()
		if gen.Kind == Integer && gen.Number >= 0 {
			p.skipSpace()
			if p.pos < len(p.src) && p.src[p.pos] == 'R' && string(p.word()) == "R" {
				return Ref{uint32(t.Number), uint16(gen.Int())}
			}
		}
	}
	p.pos = start
	return t.Int()
}

func (p *Parser) array() Array {
	a := Array{}
	p.depth++
	defer func() { p.depth-- }()
	for !p.full() {
		start := p.pos
		t := p.Lexer.Next()
		switch t.Kind {
		case ArrayClose:
			return a
		case EOF:
			p.cut = true
			return a
		case DictClose: // the bracket is missing: let the dictionary end
			p.pos, p.cut = start, true
			return a
		case Keyword:
			if o, ok := constant(t.Bytes); ok {
				a = append(a, o)
			} else if endsObject(t.Bytes) {
				p.pos, p.cut = start, true
				return a
			} else {
				p.strange = true
			}
		case Integer, Real, StringToken, NameToken, ArrayOpen, DictOpen:
			a = append(a, p.value(t))
		}
	}
	p.cut = true
	return a
}

func (p *Parser) dict() Dict {
	d := Dict{}
	p.depth++
	defer func() { p.depth-- }()
	for !p.full() {
		start := p.pos
		key := p.Lexer.Next()
		switch key.Kind {
		case DictClose:
			return d
		case EOF:
			p.cut = true
			return d
		case Keyword:
			if endsObject(key.Bytes) {
				p.pos, p.cut = start, true
				return d
			}
			p.strange = true
		case NameToken:
			if !p.entry(d, Name(key.Bytes)) {
				return d
			}
		case Integer, Real, StringToken, ArrayOpen, ArrayClose, DictOpen: // no key: skip it
			p.strange = true
		}
	}
	p.cut = true
	return d
}

// entry reads the value of key into d. It returns false if the dictionary ends
// in its place.
func (p *Parser) entry(d Dict, key Name) bool {
	start := p.pos
	t := p.Lexer.Next()
	switch t.Kind {
	case DictClose:
		p.strange = true
		return false
	case EOF:
		p.cut = true
		return false
	case ArrayClose:
		p.strange = true
	case Keyword:
		if endsObject(t.Bytes) {
			p.pos, p.cut = start, true
			return false
		}
		o, ok := constant(t.Bytes)
		if o != nil {
			d[key] = o
		}
		p.strange = p.strange || !ok
	case Integer, Real, StringToken, NameToken, ArrayOpen, DictOpen:
		d[key] = p.value(t)
	}
	return true
}

// endsObject reports whether word can only stand after an object or at the
// beginning of the next, so that an unclosed dictionary does not swallow the
// rest of the file.
func endsObject(word []byte) bool {
	switch string(word) {
	case "endobj", "stream", "obj", "endstream", "trailer", "startxref":
		return true
	}
	return false
}

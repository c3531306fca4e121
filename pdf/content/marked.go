package content

import "github.com/batchfleet/batchfleet/pdf/cos"

// mark is a marked-content sequence that has begun (ISO 32000-1, 14.6).
type mark struct {
	hidden bool // on a layer that is off
	actual bool // with text of its own
}

// maxMarks bounds how deep sequences nest; those within are ignored.
const maxMarks = 512

// maxActualText bounds the text that stands for what a sequence shows, in
// bytes; it is a word or two.
const maxActualText = 64 << 10

// actualText is the text that an author gave for what a sequence shows, such
// as a ligature or a word that is hyphenated. It replaces the text of the
// glyphs, from where the first begins to where the last ends.
type actualText struct {
	text  string
	glyph glyph
	drawn bool
}

// cover notes that the sequence shows g.
func (a *actualText) cover(g *glyph) {
	if !a.drawn {
		a.glyph, a.drawn = *g, true
		return
	}
	a.glyph.endX, a.glyph.endY = g.endX, g.endY
}

// beginMarked carries out BMC and BDC.
func (s *stream) beginMarked() {
	if len(s.marks) >= maxMarks {
		s.overMarks++
		return
	}
	var m mark
	if n := len(s.operands); n >= 2 && s.operands[0].Kind == cos.NameToken {
		tag := string(s.operands[0].Bytes)
		var properties cos.Dict
		if n == 2 && s.operands[1].Kind == cos.NameToken {
			o := s.file.Dict(s.resources["Properties"])[cos.Name(s.operands[1].Bytes)]
			m.hidden = tag == "OC" && !s.visible(o)
			properties = s.file.Dict(o)
		}
		if text, ok := s.actualText(properties); ok && s.actual == nil {
			s.actual, m.actual = &actualText{text: text}, true
		}
	}
	if m.hidden {
		s.hidden++
	}
	s.marks = append(s.marks, m)
}

// actualText returns the ActualText of a property list: a resource, or inline
// among the operands, which come without the brackets of the dictionary.
func (s *stream) actualText(properties cos.Dict) (text string, ok bool) {
	if o, ok := s.file.Resolve(properties["ActualText"]).(cos.String); ok {
		if s.actual != nil || !s.file.Spend(2*min(len(o), maxActualText)) {
			return "", false
		}
		return o[:min(len(o), maxActualText)].Text(), true
	}
	for i := 1; i+1 < len(s.operands); i++ {
		key, value := s.operands[i], s.operands[i+1]
		if key.Kind == cos.NameToken && string(key.Bytes) == "ActualText" && value.Kind == cos.StringToken {
			return cos.String(value.Bytes[:min(len(value.Bytes), maxActualText)]).Text(), true
		}
	}
	return "", false
}

// endMarked carries out EMC.
func (s *stream) endMarked() {
	if s.overMarks > 0 {
		s.overMarks--
		return
	}
	n := len(s.marks)
	if n == 0 {
		return
	}
	m := s.marks[n-1]
	s.marks = s.marks[:n-1]
	if m.hidden {
		s.hidden--
	}
	if m.actual {
		a := s.actual
		s.actual = nil
		if a.drawn {
			a.glyph.text = a.text
			s.layout.place(&a.glyph)
		}
	}
}

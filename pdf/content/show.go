package content

import (
	"math"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// show places the strings among operands; numbers between them move the pen,
// in thousandths of the font size.
func (s *stream) show(operands []cos.Token) {
	if s.font == nil {
		return
	}
	if s.font.Missing {
		s.file.Note("a font is missing")
	}
	p := s.pen()
	for i := range operands {
		switch t := &operands[i]; t.Kind {
		case cos.StringToken:
			p.show(s, t.Bytes)
		case cos.Integer, cos.Real:
			p.advance(-t.Number/1000*s.size, s.stretch)
		case cos.EOF, cos.NameToken, cos.Keyword, cos.ArrayOpen, cos.ArrayClose, cos.DictOpen, cos.DictClose:
		}
	}
	if p.vertical {
		s.text = s.text.move(0, p.moved)
	} else {
		s.text = s.text.move(p.moved, 0)
	}
}

// pen is the state of showing text: while it lasts only the position along the
// line changes.
type pen struct {
	vertical bool
	m        matrix  // text space to device space, at the first glyph
	x, y     float64 // device space
	moved    float64 // since the first glyph, text space

	glyph        glyph
	wideX, wideY float64 // device vector of one em along the line
}

func (s *stream) pen() pen {
	m := s.text.mul(s.ctm)
	p := pen{vertical: s.font.Vertical, m: m, x: s.rise*m[2] + m[4], y: s.rise*m[3] + m[5]}
	p.glyph.size = math.Hypot(s.size*m[2], s.size*m[3]) * s.font.Em
	if p.vertical {
		p.wideX, p.wideY = -s.size*m[2], -s.size*m[3]
		p.glyph.spacing = max(-s.charSpace, 0) * math.Hypot(m[2], m[3])
	} else {
		p.wideX, p.wideY = s.size*s.stretch*m[0], s.size*s.stretch*m[1]
		p.glyph.spacing = max(s.charSpace*s.stretch, 0) * math.Hypot(m[0], m[1])
	}
	p.glyph.alongX = 1
	if length := math.Hypot(p.wideX, p.wideY); length > 0 {
		p.glyph.alongX, p.glyph.alongY = p.wideX/length, p.wideY/length
	}
	return p
}

// place puts g where it shows, unless it is hidden or another text stands for
// it.
func (in *interpreter) place(g *glyph) {
	switch {
	case in.hidden > 0:
	case in.actual != nil:
		in.actual.cover(g)
	default:
		in.layout.place(g)
	}
}

// advance moves the pen by distance, in unstretched text space.
func (p *pen) advance(distance, stretch float64) {
	if p.vertical {
		p.moved += distance
		p.x, p.y = p.x+distance*p.m[2], p.y+distance*p.m[3]
		return
	}
	distance *= stretch
	p.moved += distance
	p.x, p.y = p.x+distance*p.m[0], p.y+distance*p.m[1]
}

func (p *pen) show(s *stream, codes []byte) {
	for len(codes) > 0 {
		g, n := s.font.Next(codes)
		codes = codes[n:]
		if g.Text != "" || s.actual != nil {
			p.glyph.text = g.Text
			p.glyph.x, p.glyph.y = p.x, p.y
			p.glyph.endX, p.glyph.endY = p.x+g.Width*p.wideX, p.y+g.Width*p.wideY
			s.place(&p.glyph)
		}
		distance := g.Width * s.size
		if p.vertical {
			distance = -distance
		}
		distance += s.charSpace
		if g.Space {
			distance += s.wordSpace
		}
		p.advance(distance, s.stretch)
	}
}

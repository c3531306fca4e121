package content

import (
	"math"
	"slices"

	"github.com/batchfleet/batchfleet/pdf/cos"
	"github.com/batchfleet/batchfleet/pdf/font"
)

// interpreter runs the content streams of one page.
type interpreter struct {
	*Reader
	layout    layout
	images    int
	operators int  // still allowed
	cut       bool // a stream was longer than allowed
	failed    error
	hidden    int // marked-content sequences begun on layers that are off
	actual    *actualText
	// running guards against forms that draw themselves.
	running map[*cos.Stream]bool
}

// graphics is the part of the graphics state that text depends on.
type graphics struct {
	ctm       matrix // user space to device space
	font      *font.Font
	size      float64
	charSpace float64
	wordSpace float64
	stretch   float64 // horizontal scaling, 1 for none
	leading   float64
	rise      float64
}

// stream is one content stream being run.
type stream struct {
	*interpreter
	resources cos.Dict
	fontDict  cos.Dict
	xobjects  cos.Dict
	byName    map[cos.Name]*font.Font
	depth     int

	graphics
	saved      []graphics
	overSaved  int // states saved beyond maxStates
	compatible int // sections begun in which operators may be unknown
	marks      []mark
	overMarks  int    // sequences begun beyond maxMarks
	text, line matrix // text matrix and text line matrix

	// operands of the next operator. Brackets are left out: no operator that
	// matters has more than one array.
	operands     []cos.Token
	overOperands bool // some were left out
}

// run interprets data with the given resources, as a form at the given depth.
func (in *interpreter) run(data []byte, resources cos.Dict, g graphics, depth int) {
	s := stream{
		interpreter: in, resources: resources, depth: depth, graphics: g, text: identity, line: identity,
		fontDict: in.file.Dict(resources["Font"]), xobjects: in.file.Dict(resources["XObject"]),
		byName: map[cos.Name]*font.Font{},
	}
	defer func() {
		for s.overMarks = 0; len(s.marks) > 0; { // what a stream begins ends with it
			s.endMarked()
		}
	}()
	l := cos.NewLexer(data)
	for {
		t := s.nextOperand()
		l.Scan(t)
		switch t.Kind {
		case cos.EOF:
			if len(s.operands) > 0 { // a string without its end takes all that follows
				s.file.Note("the contents break off")
			}
			return
		case cos.Integer, cos.Real, cos.StringToken, cos.NameToken:
			if len(s.operands) < maxOperands {
				s.operands = s.operands[:len(s.operands)+1]
			} else {
				s.overOperands = true
			}
		case cos.ArrayOpen, cos.ArrayClose, cos.DictOpen, cos.DictClose:
		case cos.Keyword:
			if in.operators--; in.operators < 0 || in.layout.full || in.file.BudgetErr() != nil {
				return
			}
			if s.overOperands {
				s.file.Note("an operator has more than %d operands", maxOperands)
				s.overOperands = false
			}
			if string(t.Bytes) == "BI" {
				s.inlineImage(l)
			} else {
				s.do(t.Bytes)
			}
			s.operands = s.operands[:0]
			l.Recycle()
		}
	}
}

// nextOperand returns room for one more token behind the operands.
func (s *stream) nextOperand() *cos.Token {
	n := len(s.operands)
	s.operands = slices.Grow(s.operands, 1)
	return &s.operands[:n+1][n]
}

// number returns operand i, counted from the first; 0 if it is no number.
func (s *stream) number(i int) float64 {
	if i >= len(s.operands) || s.operands[i].Kind > cos.Real {
		return 0
	}
	return s.operands[i].Number
}

// last returns the last operand if it is of the given kind.
func (s *stream) last(kind cos.Kind) ([]byte, bool) {
	if n := len(s.operands); n > 0 && s.operands[n-1].Kind == kind {
		return s.operands[n-1].Bytes, true
	}
	return nil, false
}

func (s *stream) matrix() matrix {
	return matrix{s.number(0), s.number(1), s.number(2), s.number(3), s.number(4), s.number(5)}
}

// do carries out one operator (ISO 32000-1, annex A); most have no effect on
// text.
func (s *stream) do(operator []byte) {
	switch string(operator) {
	case "q":
		s.save()
	case "Q":
		s.restore()
	case "cm":
		s.ctm = s.matrix().mul(s.ctm)
	case "gs":
		s.setState()
	case "Do":
		s.draw()
	case "BDC", "BMC":
		s.beginMarked()
	case "EMC":
		s.endMarked()
	case "BT":
		s.text, s.line = identity, identity
	case "Tf":
		s.setFont()
	case "Tc":
		s.charSpace = s.number(0)
	case "Tw":
		s.wordSpace = s.number(0)
	case "Tz":
		s.stretch = s.number(0) / 100
	case "TL":
		s.leading = s.number(0)
	case "Ts":
		s.rise = s.number(0)
	case "Td":
		s.nextLine(s.number(0), s.number(1))
	case "TD":
		s.leading = -s.number(1)
		s.nextLine(s.number(0), s.number(1))
	case "Tm":
		s.line = s.matrix()
		s.text = s.line
	case "T*":
		s.nextLine(0, -s.leading)
	case "Tj", "TJ":
		s.show(s.operands)
	case "'":
		s.nextLine(0, -s.leading)
		s.show(s.operands)
	case `"`:
		if len(s.operands) >= 3 {
			s.wordSpace, s.charSpace = s.number(0), s.number(1)
			s.operands = s.operands[2:]
		}
		s.nextLine(0, -s.leading)
		s.show(s.operands)
	case "w", "J", "j", "M", "d", "ri", "i", "m", "l", "c", "v", "y", "h", "re", "S", "s", "f", "F", "f*", "B", "B*", "b", "b*", "n", "W", "W*",
		"ET", "Tr", "d0", "d1", "CS", "cs", "SC", "SCN", "sc", "scn", "G", "g", "RG", "rg", "K", "k", "sh", "MP", "DP", "true", "false", "null":
	case "BX":
		s.compatible++
	case "EX":
		s.compatible--
	default:
		if s.compatible <= 0 {
			s.file.Note("the contents have an unknown operator")
		}
	}
}

func (s *stream) save() {
	if len(s.saved) >= maxStates {
		s.overSaved++
		return
	}
	s.saved = append(s.saved, s.graphics)
}

func (s *stream) restore() {
	if s.overSaved > 0 {
		s.overSaved-- // to a state that is much like the one there is
		return
	}
	if n := len(s.saved); n > 0 {
		s.graphics, s.saved = s.saved[n-1], s.saved[:n-1]
	}
}

func (s *stream) nextLine(x, y float64) {
	s.line = s.line.move(x, y)
	s.text = s.line
}

func (s *stream) setFont() {
	n := len(s.operands)
	if n < 2 || s.operands[n-2].Kind != cos.NameToken {
		return
	}
	s.size = s.number(n - 1)
	name := s.operands[n-2].Bytes
	f, ok := s.byName[cos.Name(name)]
	if !ok {
		f = s.load(s.fontDict[cos.Name(name)])
		s.byName[cos.Name(name)] = f
	}
	s.font = f
}

func (s *stream) load(o cos.Object) *font.Font {
	f, loaded := s.fonts.Load(o)
	if loaded {
		s.operators -= loadCost
	}
	return f
}

// setState applies the font of a graphics state dictionary, a rare way to set
// it.
func (s *stream) setState() {
	name, ok := s.last(cos.NameToken)
	if !ok {
		return
	}
	state := s.file.Dict(s.file.Dict(s.resources["ExtGState"])[cos.Name(name)])
	if setting := s.file.Array(state["Font"]); len(setting) == 2 {
		s.font = s.load(setting[0])
		s.size, _ = s.file.Number(setting[1])
	}
}

// draw runs a form XObject or counts an image.
func (s *stream) draw() {
	name, ok := s.last(cos.NameToken)
	if !ok {
		return
	}
	x := s.file.Stream(s.xobjects[cos.Name(name)])
	if x == nil {
		s.file.Note("what the page draws as %.40q is missing", name)
		return
	}
	if !s.visible(x.Dict["OC"]) {
		return
	}
	switch s.file.Name(x.Dict["Subtype"]) {
	case "Image":
		s.image()
	case "Form":
		g := s.graphics
		g.ctm = readMatrix(s.file, x.Dict["Matrix"]).mul(g.ctm)
		s.form(x, s.resources, g, s.depth+1)
	}
}

// form runs a form XObject, which uses the resources of its parent if it has
// none of its own.
func (in *interpreter) form(x *cos.Stream, resources cos.Dict, g graphics, depth int) {
	if in.running[x] {
		return
	}
	if depth > maxForms {
		in.file.Note("forms nest more than %d deep", maxForms)
		return
	}
	in.running[x] = true
	defer delete(in.running, x)
	if own := in.file.Dict(x.Dict["Resources"]); own != nil {
		resources = own
	}
	in.run(in.decode("form", x, math.MaxInt), resources, g, depth)
}

package content

import (
	"bytes"
	"math"
	"unicode/utf8"
)

// layout puts glyphs into lines of words, in the order the page shows them. A
// PDF has no words: a gap between glyphs, or a jump, is all there is.
type layout struct {
	page  box // what is outside is left out
	text  []byte
	limit int
	full  bool // text beyond the limit has been dropped

	// Of the glyph before, in device space; valid if drawn.
	drawn  bool
	last   glyph // but for its text, which is in text from at on
	at     int
	accent rune // combining character, if it is an accent by itself

	run      spacedRun
	touching bool // no gap is before the glyph, and no space

	line        overprint
	started     int  // where the text of the line begins
	rightToLeft bool // the line has letters of a script written from the right
}

// The distances are in units of the font size: looser ones join words, tighter
// ones split them. The bench of the reader shows how words change with them.
const (
	wordGap   = 0.11 // between two glyphs of a line
	lineShift = 0.5  // across the line: a superscript moves less
	lineBack  = 1.0  // against the writing direction: an accent moves less
	overlap   = 0.1  // of glyphs that may be drawn over each other on purpose
	turned    = 0.7  // cosine of the angle between two writing directions
)

// glyph is text to be placed.
type glyph struct {
	text       string
	x, y       float64 // where it begins
	endX, endY float64
	size       float64 // of the font
	spacing    float64 // character spacing after it, which is no gap between words
	alongX     float64 // unit vector of the writing direction
	alongY     float64
}

func (l *layout) place(g *glyph) {
	if l.outside(g) {
		return
	}
	if l.drawn {
		if l.line.goesOn(g) {
			l.pass(g)
			return
		}
		dx, dy := g.x-l.last.endX, g.y-l.last.endY
		along := dx*g.alongX + dy*g.alongY
		across := math.Abs(dy*g.alongX - dx*g.alongY)
		if along < -overlap*g.size {
			if l.line.again(g) {
				l.pass(g)
				return
			}
			if across < lineShift*g.size && l.compose(g) {
				return
			}
		}
		l.separate(g, along, across)
	}
	l.at = len(l.text)
	l.write(g.text)
	l.line.add(g)
	l.accent = accentOf(g.text)
	l.last, l.drawn = *g, true
}

// pass moves to the end of g without its text.
func (l *layout) pass(g *glyph) { l.last, l.at, l.accent = *g, len(l.text), 0 }

// outside reports whether g is beside the page altogether.
func (l *layout) outside(g *glyph) bool {
	return g.x < l.page.x0 && g.endX < l.page.x0 || g.x > l.page.x1 && g.endX > l.page.x1 ||
		max(g.y, g.endY) < l.page.y0-g.size || min(g.y, g.endY) > l.page.y1
}

// separate writes the space or line feed between the glyph before and g, which
// is that far along the line and across it.
func (l *layout) separate(g *glyph, along, across float64) {
	size := max(g.size, l.last.size, 0.1)
	switch {
	case across > lineShift*size,
		along < -lineBack*size,
		g.alongX*l.last.alongX+g.alongY*l.last.alongY < turned:
		l.newLine()
	default:
		l.step(g, along, size)
	}
}

// newLine ends the line, unless nothing is on it.
func (l *layout) newLine() {
	l.endRun()
	l.touching = false
	l.text = bytes.TrimRight(l.text, " ")
	if l.rightToLeft {
		l.text = append(l.text[:l.started], reorder(l.text[l.started:])...)
		l.rightToLeft = false
	}
	if n := len(l.text); n > 0 && l.text[n-1] != '\n' {
		l.text = append(l.text, '\n')
	}
	l.started = len(l.text)
	l.line.reset()
}

// breakLine makes what follows begin on a new line, wherever that is.
func (l *layout) breakLine() {
	l.newLine()
	l.drawn = false
}

// placeLine places g, whose text is in the order of reading, on a line of its
// own.
func (l *layout) placeLine(g *glyph) {
	l.breakLine()
	l.place(g)
	l.rightToLeft = false
}

func (l *layout) space() {
	if !l.endsInSpace() {
		l.text = append(l.text, ' ')
	}
}

// write appends text as valid UTF-8, without control characters and with
// ligatures taken apart.
func (l *layout) write(text string) {
	if len(l.text)+len(text) > l.limit {
		l.full = true
		return
	}
	if len(text) == 1 && text[0] > ' ' && text[0] < 0x7f { // nearly always
		l.text = append(l.text, text[0])
		return
	}
	for _, r := range text {
		switch {
		case r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == '\u00a0':
			l.space()
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError:
		case r >= '\ufb00' && r <= '\ufb06':
			l.text = append(l.text, ligatures[r-'\ufb00']...)
		default:
			l.rightToLeft = l.rightToLeft || isRightToLeft(r)
			l.text = utf8.AppendRune(l.text, r)
		}
	}
}

// ligatures are the Latin ones from U+FB00 on.
var ligatures = [...]string{"ff", "fi", "fl", "ffi", "ffl", "st", "st"}

// finish returns the text. Nothing may be placed any more.
func (l *layout) finish() string {
	l.newLine()
	return string(bytes.TrimRight(l.text, "\n"))
}

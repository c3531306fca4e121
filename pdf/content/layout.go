package content

import (
	"bytes"
	"math"
	"strings"
	"unicode/utf8"
)

// layout puts glyphs into lines of words, in the order the page shows them. A
// PDF has no words: a gap between glyphs, or a jump, is all there is.
type layout struct {
	text  []byte
	limit int
	full  bool // text beyond the limit has been dropped

	// Of the glyph before, in device space; valid if drawn.
	drawn          bool
	endX, endY     float64 // where it ends
	size           float64
	alongX, alongY float64 // unit vector of its writing direction
}

// The distances are in units of the font size, measured against pdftotext on
// a few thousand documents: looser ones join words, tighter ones split them.
const (
	wordGap   = 0.11 // between two glyphs of a line
	lineShift = 0.5  // across the line: a superscript moves less
	lineBack  = 1.0  // against the writing direction: an accent moves less
	turned    = 0.7  // cosine of the angle between two writing directions
)

// glyph is text to be placed.
type glyph struct {
	text       string
	x, y       float64 // where it begins
	endX, endY float64
	size       float64 // of the font
	alongX     float64 // unit vector of the writing direction
	alongY     float64
}

func (l *layout) place(g *glyph) {
	if l.drawn {
		l.separate(g)
	}
	l.write(g.text)
	l.drawn = true
	l.endX, l.endY, l.size, l.alongX, l.alongY = g.endX, g.endY, g.size, g.alongX, g.alongY
}

// separate writes the space or line feed between the glyph before and g.
func (l *layout) separate(g *glyph) {
	dx, dy := g.x-l.endX, g.y-l.endY
	along := dx*g.alongX + dy*g.alongY
	across := math.Abs(dy*g.alongX - dx*g.alongY)
	size := max(g.size, 0.1)
	switch {
	case across > lineShift*size && across > 0.3*l.size,
		along < -lineBack*size,
		g.alongX*l.alongX+g.alongY*l.alongY < turned:
		l.newLine()
	case along > wordGap*size, across > lineShift*size:
		l.space()
	}
}

// newLine ends the line, unless nothing is on it.
func (l *layout) newLine() {
	l.text = bytes.TrimRight(l.text, " ")
	if n := len(l.text); n > 0 && l.text[n-1] != '\n' {
		l.text = append(l.text, '\n')
	}
}

// breakLine makes what follows begin on a new line, wherever that is.
func (l *layout) breakLine() {
	l.newLine()
	l.drawn = false
}

func (l *layout) space() {
	if n := len(l.text); n > 0 && l.text[n-1] != ' ' && l.text[n-1] != '\n' {
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
			l.text = utf8.AppendRune(l.text, r)
		}
	}
}

// ligatures are the Latin ones from U+FB00 on.
var ligatures = [...]string{"ff", "fi", "fl", "ffi", "ffl", "st", "st"}

func (l *layout) String() string { return strings.TrimRight(string(l.text), " \n") }

package content

import "math"

// overprint recognizes glyphs that are drawn a second time over themselves,
// which makes text bold or gives it a shadow. It remembers the glyphs of one
// line.
type overprint struct {
	glyphs []spot
	next   int // of the glyphs, the one expected to be drawn again; 0 for none
	looked int // glyphs looked at on this page
}

// spot is a glyph that has been drawn.
type spot struct {
	x, y float64
	text string
}

const (
	// maxLine bounds the glyphs of a line that are remembered.
	maxLine = 2000
	// maxLooked bounds the search on a page: a hostile one could jump back at
	// every glyph.
	maxLooked = 2_000_000
	// shadow is how far the second glyph may be off, in units of the font size.
	shadow = 0.1
)

func (o *overprint) reset() { o.glyphs, o.next = o.glyphs[:0], 0 }

func (o *overprint) add(g *glyph) {
	if len(o.glyphs) < maxLine {
		o.glyphs = append(o.glyphs, spot{g.x, g.y, g.text})
	}
}

// again reports whether g, to which the pen has jumped back, has been drawn at
// its place before.
func (o *overprint) again(g *glyph) bool {
	for i := len(o.glyphs) - 1; i >= 0 && o.looked < maxLooked; i-- {
		o.looked++
		if o.glyphs[i].is(g) {
			o.next = i + 1
			return true
		}
	}
	return false
}

// goesOn reports whether g follows a glyph drawn again and is drawn again, too.
func (o *overprint) goesOn(g *glyph) bool {
	if o.next > 0 && o.next < len(o.glyphs) && o.glyphs[o.next].is(g) {
		o.next++
		return true
	}
	o.next = 0
	return false
}

func (s *spot) is(g *glyph) bool {
	return math.Abs(s.x-g.x) < shadow*g.size && math.Abs(s.y-g.y) < shadow*g.size && s.text == g.text
}

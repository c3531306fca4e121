package content

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// spacedRun is glyphs of a line that are apart by their character spacing.
// Mostly they are letterspaced words. But some writers, Ghostscript among them,
// make the gap between two words of it: they show the last letter of a word and
// the first of the next as one string with such a spacing. Then the letters
// around the run touch it.
type spacedRun struct {
	gaps    [maxSpacedGaps]int // where in the text they are
	n       int                // gaps so far, those beyond maxSpacedGaps included
	touched bool
}

// maxSpacedGaps is how many gaps a run may have to be taken for gaps between
// words: few words have one letter.
const maxSpacedGaps = 4

// step goes from the glyph before to g, which is that far along the same line,
// and writes a space if it is the beginning of a word.
func (l *layout) step(g *glyph, along, size float64) {
	spacing := l.last.spacing
	switch {
	case along-spacing > wordGap*size:
		l.endRun()
		l.space()
		l.touching = false
	case spacing <= wordGap*size, along < spacing/3:
		l.touching = !l.endsInSpace() && g.text != " "
		l.run.touched = l.run.touched || l.touching
		l.endRun()
	case !isWordEnd(l.text) && !isWordStart(g.text) && g.text != " ":
		l.space() // letterspaced words have letters
	default:
		l.spaced(g)
	}
}

// spaced notes the gap before g, whose width is that of a character spacing.
func (l *layout) spaced(g *glyph) {
	r := &l.run
	if r.n == 0 {
		r.touched = l.touching
	}
	if r.n < maxSpacedGaps {
		r.gaps[r.n] = len(l.text)
	}
	r.n++
	if g.text == " " {
		r.n += maxSpacedGaps // it would not be there if gaps were between words
	}
}

// endRun writes the spaces of a run whose gaps turn out to be between words.
func (l *layout) endRun() {
	r := &l.run
	if r.touched && r.n <= maxSpacedGaps && len(l.text)+r.n <= l.limit {
		for i := r.n - 1; i >= 0; i-- {
			l.text = slices.Insert(l.text, r.gaps[i], ' ')
		}
	}
	*r = spacedRun{}
}

func (l *layout) endsInSpace() bool {
	n := len(l.text)
	return n == 0 || l.text[n-1] == ' ' || l.text[n-1] == '\n'
}

func isWordEnd(text []byte) bool {
	r, _ := utf8.DecodeLastRune(text)
	return isOfWords(r)
}

func isWordStart(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return isOfWords(r)
}

func isOfWords(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

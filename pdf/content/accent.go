package content

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// spacingAccents are the glyphs of two bytes that are accents by themselves, and
// combiningAccents what they are over or under a letter.
const spacingAccents = "´ˆ˜¯˘˙¨˚˝ˇ¸˛"

var combiningAccents = [...]rune{
	'\u0301', '\u0302', '\u0303', '\u0304', '\u0306', '\u0307',
	'\u0308', '\u030a', '\u030b', '\u030c', '\u0327', '\u0328',
}

// accentOf returns the combining character for the text of a glyph that is an
// accent by itself, 0 for any other. Old fonts have no accented letters: their
// writers draw an accent, and the letter under it.
func accentOf(text string) rune {
	switch len(text) {
	case 1:
		switch text[0] {
		case '`':
			return '\u0300'
		case '^':
			return '\u0302'
		case '~':
			return '\u0303'
		}
	case 2:
		if i := strings.Index(spacingAccents, text); i >= 0 && i%2 == 0 {
			return combiningAccents[i/2]
		}
	}
	return 0
}

// compose makes one letter of g and the glyph before if one is an accent and
// stands over or under the other, which is a letter that takes it.
func (l *layout) compose(g *glyph) bool {
	if l.accent != 0 {
		if !l.last.over(g) || !l.replace(g.text, l.accent) {
			return false
		}
		l.accent, l.last = 0, *g
		return true
	}
	accent := accentOf(g.text)
	// The pen stays at the end of the letter: it is what the next one follows.
	return accent != 0 && g.over(&l.last) && l.at < len(l.text) && l.replace(string(l.text[l.at:]), accent)
}

// over reports whether the middle of an accent is between the beginning and the
// end of a letter.
func (g *glyph) over(letter *glyph) bool {
	wide, high := letter.endX-letter.x, letter.endY-letter.y
	t := (g.x+g.endX-2*letter.x)*wide + (g.y+g.endY-2*letter.y)*high
	return t >= 0 && t <= 2*(wide*wide+high*high)
}

// replace puts the letter with the accent in the place of the last glyph.
func (l *layout) replace(letter string, accent rune) bool {
	base, size := utf8.DecodeRuneInString(letter)
	if size != len(letter) || !unicode.IsLetter(base) {
		return false
	}
	switch base {
	case 'ı':
		base = 'i'
	case 'ȷ':
		base = 'j'
	}
	one := norm.NFC.String(string([]rune{base, accent}))
	if utf8.RuneCountInString(one) != 1 {
		return false
	}
	l.text = append(l.text[:l.at], one...)
	return true
}

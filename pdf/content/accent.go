package content

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// accentOf returns the combining character for the text of a glyph that is an
// accent by itself, 0 for any other. Old fonts have no accented letters: their
// writers draw an accent, and the letter under it.
func accentOf(text string) rune {
	if len(text) == 1 {
		switch text[0] {
		case '`':
			return '\u0300'
		case '^':
			return '\u0302'
		case '~':
			return '\u0303'
		}
		return 0
	}
	if len(text) != 2 { // all the others have two bytes
		return 0
	}
	switch text {
	case "´":
		return '\u0301'
	case "ˆ":
		return '\u0302'
	case "˜":
		return '\u0303'
	case "¯":
		return '\u0304'
	case "˘":
		return '\u0306'
	case "˙":
		return '\u0307'
	case "¨":
		return '\u0308'
	case "˚":
		return '\u030a'
	case "˝":
		return '\u030b'
	case "ˇ":
		return '\u030c'
	case "¸":
		return '\u0327'
	case "˛":
		return '\u0328'
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

package cos

import (
	"bytes"
	"slices"
)

// InlineImage is what the dictionary of an inline image says about the end of
// its data, which have no length of their own.
type InlineImage struct {
	Length int    // bytes, if it is known; 0 if not
	End    string // what ends the data in their encoding: "~>"; empty if nothing does
}

// SkipInlineImage moves past the data of an inline image and the EI after them;
// the lexer must stand right after its ID operator. What the image says of
// itself is believed if an EI follows; otherwise the first EI that looks like
// the operator ends the data. It returns false if there is none: then nothing of
// the source is left.
func (l *Lexer) SkipInlineImage(image InlineImage) bool {
	data := l.src[min(l.pos+1, len(l.src)):] // one white space follows ID
	if n := image.Length; n > 0 && n <= len(data) && l.endInlineImage(data[n:]) {
		return true
	}
	if end := image.End; end != "" {
		if l.search(end, func() bool {
			i := bytes.Index(data, []byte(end))
			return i >= 0 && l.endInlineImage(data[i+len(end):])
		}) {
			return true
		}
	}
	after := func(looksRight func(i int) bool) func() bool {
		return func() bool {
			for i := 0; i+2 <= len(data); i++ {
				if data[i] == 'E' && data[i+1] == 'I' && looksRight(i) {
					l.pos = len(l.src) - len(data) + i + 2
					return true
				}
			}
			return false
		}
	}
	if l.search("EI between white space", after(func(i int) bool {
		return (i == 0 || class[data[i-1]] == space) && looksLikeText(data[i+2:])
	})) {
		return true
	}
	// Better a few bytes of the image read as operators than the page lost.
	if l.search("EI", after(func(int) bool { return true })) {
		return true
	}
	l.pos = len(l.src)
	return false
}

// search runs find unless what it looks for has been looked for without result from an
// earlier place. Without that a page of images without ends would be searched
// over and over.
func (l *Lexer) search(what string, find func() bool) bool {
	if slices.Contains(l.missing, what) {
		return false
	}
	if find() {
		return true
	}
	l.missing = append(l.missing, what)
	return false
}

// endInlineImage moves past the EI that rest, the end of the source, begins
// with, perhaps after white space.
func (l *Lexer) endInlineImage(rest []byte) bool {
	const maxSpace = 16
	i := 0
	for i < len(rest) && i < maxSpace && class[rest[i]] == space {
		i++
	}
	if !bytes.HasPrefix(rest[i:], []byte("EI")) || len(rest) > i+2 && class[rest[i+2]] == regular {
		return false
	}
	l.pos = len(l.src) - len(rest) + i + 2
	return true
}

// looksLikeText reports whether b begins with white space and goes on with a
// few bytes of operators.
func looksLikeText(b []byte) bool {
	if len(b) > 0 && class[b[0]] != space {
		return false
	}
	for _, c := range b[:min(10, len(b))] {
		if c > '~' || c < ' ' && class[c] != space {
			return false
		}
	}
	return true
}

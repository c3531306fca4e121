package main

import (
	"bytes"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// counts is a multiset of words and its size.
type counts struct {
	words map[string]int
	total int
}

// countWords returns the words of a text: what stands between white space and
// has a letter or a digit, after compatibility normalization. Two readers agree
// that a ligature is its letters. How they write a symbol they cannot name (a
// control character, one for private use, U+FFFD or nothing) makes no words;
// control characters, and marks of direction, which only pdftotext writes, are
// no part of one.
func countWords(text []byte) counts {
	c := counts{words: map[string]int{}}
	for word := range bytes.FieldsSeq(norm.NFKC.Bytes(bytes.Map(dropMarks, text))) {
		if bytes.ContainsFunc(word, isWordCharacter) {
			c.words[string(word)]++
			c.total++
		}
	}
	return c
}

func isWordCharacter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func dropMarks(r rune) rune {
	if unicode.Is(unicode.Bidi_Control, r) || unicode.IsControl(r) && !unicode.IsSpace(r) {
		return -1
	}
	return r
}

// f1 is the harmonic mean of precision and recall, which is symmetric: twice
// the words in common by the words in all. Two empty texts are equal.
func f1(a, b counts) float64 {
	if a.total+b.total == 0 {
		return 1
	}
	common := 0
	for word, n := range a.words {
		common += min(n, b.words[word])
	}
	return 2 * float64(common) / float64(a.total+b.total)
}

// sameHasText returns on how many pages the two texts agree whether there is
// text, and of how many.
func sameHasText(a, b [][]byte) (same, of int) {
	for i := range min(len(a), len(b)) {
		if (len(bytes.TrimSpace(a[i])) > 0) == (len(bytes.TrimSpace(b[i])) > 0) {
			same++
		}
	}
	return same, max(len(a), len(b))
}

// isCJK reports whether more than one in a hundred characters is of a script
// that writes without blanks between words, so that the words of a reader
// depend on where it breaks lines.
func isCJK(text []byte) bool {
	return share(text, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) > 0.01
}

// isRightToLeft reports whether more than one in a hundred characters is of a
// script written from the right. Readers differ in whether they turn such lines
// round.
func isRightToLeft(text []byte) bool {
	return share(text, unicode.Arabic, unicode.Hebrew, unicode.Syriac, unicode.Thaana) > 0.01
}

// share returns which part of the characters of a text are of scripts.
func share(text []byte, scripts ...*unicode.RangeTable) float64 {
	var in, all int
	for _, r := range string(text) {
		if unicode.IsSpace(r) {
			continue
		}
		all++
		if r >= 0x80 && unicode.In(r, scripts...) {
			in++
		}
	}
	return float64(in) / float64(max(1, all))
}

package redact

import (
	_ "embed" // the words
	"strings"
	"sync"
)

// The English words of BIP-39, from github.com/bitcoin/bips; MIT license.
//
//go:embed english.txt
var english string

var mnemonicWords = sync.OnceValue(func() map[string]struct{} {
	words := make(map[string]struct{}, 2048)
	for w := range strings.FieldsSeq(english) {
		words[w] = struct{}{}
	}
	return words
})

// minWords is the length of the shortest mnemonic. So many words of the list in
// a row do not happen in prose, which lacks "the", "and" and "of".
const minWords = 12

// isLength reports whether words of the list may be so long.
func isLength(n int) bool { return n >= 3 && n <= 8 }

func isMnemonicWord(s string) bool {
	if !isLength(len(s)) {
		return false
	}
	var lower [8]byte
	for i := range len(s) {
		lower[i] = s[i] | 0x20 // s has only letters
	}
	_, ok := mnemonicWords()[string(lower[:len(s)])]
	return ok
}

// mnemonics hides what is made of at least minWords words of the list, which may
// be numbered, quoted, or stand on a line each.
func mnemonics(s string) string {
	var b []byte
	from := 0           // what of s is in b
	first, last := 0, 0 // where the words begin and end
	count := 0
	hide := func() {
		if count >= minWords {
			b = append(append(b, s[from:first]...), Mark...)
			from = last
		}
		count = 0
	}
	for i := 0; i < len(s); {
		start, end := nextWord(s, i)
		if count > 0 && !isGap(s[last:start]) {
			hide()
		}
		if !isMnemonicWord(s[start:end]) {
			hide()
		} else {
			if count++; count == 1 {
				first = start
			}
			last = end
		}
		i = end
	}
	hide()
	if from == 0 {
		return s
	}
	return string(append(b, s[from:]...))
}

// nextWord returns where the next word from i on begins and ends. The letter of
// an escaped line break begins no word.
func nextWord(s string, i int) (start, end int) {
	for i < len(s) && classes[s[i]]&letter == 0 {
		if afterEscape(s, i+2) {
			i++
		}
		i++
	}
	start = i
	for i < len(s) && classes[s[i]]&letter != 0 {
		i++
	}
	return start, i
}

// isGap reports whether text may stand between two words of a mnemonic.
func isGap(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return len(text) > 0 && len(text) <= 12
}

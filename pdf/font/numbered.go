package font

import (
	"slices"
	"strconv"
	"strings"
)

// numbering is what the numbers in a font's glyph names are. Some writers name
// the glyphs of a font after their codes, such as "G41", "a65", "C0065" or
// "41"; only the names of the whole font show whether numbers are decimal, or
// are codes at all.
type numbering uint8

const (
	notNumbered numbering = iota
	decimalNumbers
	hexadecimalNumbers
)

// maxFirstCode is the highest code with which a sequence of such names begins:
// who numbers the glyphs numbers all of them. This is poppler's rule.
const maxFirstCode = 5

// numberingOf looks at the glyph names of a font; starts are the codes at which
// its sequences of names begin.
func numberingOf(names []string, starts []int) numbering {
	if len(names) == 0 {
		return notNumbered
	}
	if slices.ContainsFunc(starts, func(code int) bool { return code > maxFirstCode }) {
		return notNumbered
	}
	kind := decimalNumbers
	if slices.ContainsFunc(names, hexadecimalName) {
		kind = hexadecimalNumbers
	}
	for _, name := range names {
		if _, ok := kind.number(name); !ok {
			return notNumbered
		}
	}
	return kind
}

// hexadecimalName reports whether name is "3F" or "G3F", with a letter among
// the digits. Two bytes must have it last: "a0" may be number 0.
func hexadecimalName(name string) bool {
	if len(name) == 3 && isLetter(name[0]) {
		return isHex(name[1]) && isHex(name[2]) && (isLetter(name[1]) || isLetter(name[2]))
	}
	return len(name) == 2 && isHex(name[0]) && isHex(name[1]) && isLetter(name[1])
}

// number returns the number in name. What follows it may not be a letter or
// a digit.
func (n numbering) number(name string) (v int, ok bool) {
	switch n {
	case notNumbered:
		return 0, false
	case hexadecimalNumbers:
		name, ok = alphanumeric(name)
		if len(name) == 3 && isLetter(name[0]) {
			name = name[1:]
		}
		v, err := strconv.ParseUint(name, 16, 8)
		return int(v), ok && len(name) == 2 && err == nil
	case decimalNumbers:
		if numbersGlyph(name) {
			return 0, false
		}
		for i := 0; i < 2 && name != "" && isLetter(name[0]); i++ {
			name = name[1:]
		}
		name, ok = alphanumeric(name)
		v, err := strconv.ParseUint(name, 10, 16)
		return int(v), ok && err == nil
	}
	return 0, false
}

// alphanumeric cuts off what follows the letters and digits name begins with,
// which ok says has none itself.
func alphanumeric(name string) (head string, ok bool) {
	const set = asciiLetters + "0123456789"
	tail := strings.TrimLeft(name, set)
	return name[:len(name)-len(tail)], !strings.ContainsAny(tail, set)
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

func isHex(b byte) bool { return b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'f' }

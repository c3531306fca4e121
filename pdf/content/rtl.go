package content

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// isRightToLeft reports whether r is a letter of a script written from the
// right: Hebrew, Arabic and their neighbours, and their presentation forms.
func isRightToLeft(r rune) bool {
	return r >= 0x590 && (r <= 0x8ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfefc || r >= 0x10800 && r <= 0x10fff || r >= 0x1e800 && r <= 0x1efff) &&
		!unicode.IsDigit(r)
}

// direction is how a character takes part in the order of a line.
type direction uint8

const (
	neutral   direction = iota // white space and punctuation: as what is around it
	leftward                   // a letter of a script written from the right
	rightward                  // any other letter
	number                     // a digit: written from the left in all scripts
)

func directionOf(r rune) direction {
	switch {
	case isRightToLeft(r):
		return leftward
	case unicode.IsDigit(r):
		return number
	case unicode.IsLetter(r):
		return rightward
	}
	return neutral
}

// reorder puts a line of text as a page shows it, from left to right, into the
// order in which it is read: what the bidirectional algorithm (UAX 9) does when
// text is displayed, backwards, for lines without nested quotations.
func reorder(line []byte) []byte {
	runes := []rune(string(line))
	directions := make([]direction, len(runes))
	balance := 0
	for i, r := range runes {
		directions[i] = directionOf(r)
		switch directions[i] {
		case leftward:
			balance++
		case rightward:
			balance--
		case neutral, number:
		}
	}
	if balance > 0 { // the line as a whole is read from the right
		turn(runes, directions)
	} else {
		for start := 0; start < len(runes); start++ {
			if directions[start] == leftward {
				end := endOfLeftward(directions, start)
				turn(runes[start:end], directions[start:end])
				start = end - 1
			}
		}
	}
	out := line[:0]
	for _, r := range runes {
		out = utf8.AppendRune(out, r)
	}
	return out
}

// endOfLeftward returns the end of the run of text written from the right that
// begins at start: the last such letter before a letter written from the left.
func endOfLeftward(directions []direction, start int) (end int) {
	for i := start; i < len(directions) && directions[i] != rightward; i++ {
		if directions[i] == leftward {
			end = i + 1
		}
	}
	return end
}

// turn reverses runes, and turns the numbers and the words written from the
// left among them back.
func turn(runes []rune, directions []direction) {
	slices.Reverse(runes)
	slices.Reverse(directions)
	for start := 0; start < len(runes); start++ {
		if directions[start] < rightward {
			continue
		}
		end := endOfRightward(runes, directions, start)
		slices.Reverse(runes[start:end])
		start = end - 1
	}
}

// endOfRightward returns the end of the run written from the left that begins
// at start. Punctuation inside belongs to it: "3.14", "e.g. this".
func endOfRightward(runes []rune, directions []direction, start int) (end int) {
	letters := false
	for i := start; i < len(runes) && directions[i] != leftward; i++ {
		letters = letters || directions[i] == rightward
		switch {
		case directions[i] >= rightward:
			end = i + 1
		case unicode.IsSpace(runes[i]) && !letters:
			return end // numbers apart are in the order of the line
		}
	}
	return end
}

package redact

import "strings"

// What a byte may be the beginning, the end or a part of.
const (
	alnum   = 1 << iota // a letter or a digit
	letter              // a letter
	base64              // of either alphabet of base64
	trigger             // mayMatch looks closer
)

var classes = func() (t [256]uint8) {
	for c := range 256 {
		lower := byte(c) | 0x20 //nolint:gosec // below 256
		switch {
		case lower >= 'a' && lower <= 'z':
			t[c] = alnum | letter | base64
		case c >= '0' && c <= '9':
			t[c] = alnum | base64
		case c == '+' || c == '/' || c == '_' || c == '-':
			t[c] = base64
		}
	}
	for _, c := range "=:>-_.JAIxBb" {
		t[c] |= trigger
	}
	return t
}()

// suspicious reports whether a rule might find something in s. It makes plain lines
// cheap: one pass without a copy.
func suspicious(s string) bool {
	run, word, words := 0, 0, 0 // lengths, and how many words in a row could be of a mnemonic
	for i := range len(s) {
		class := classes[s[i]]
		if class&base64 != 0 {
			if run++; run > maxHex {
				return true
			}
		} else if s[i] != '\\' && s[i] != '\n' && s[i] != '\r' { // lines of it are counted together
			run = 0
		}
		if class&letter != 0 {
			word++
		} else if word > 0 {
			if words++; !isLength(word) {
				words = 0
			}
			if word = 0; words >= minWords {
				return true
			}
		}
		if class&trigger != 0 && mayMatch(s, i) {
			return true
		}
	}
	return isLength(word) && words+1 >= minWords
}

// mayMatch reports whether the byte at i, a trigger, is a part of something that a
// rule looks for.
func mayMatch(s string, i int) bool {
	switch s[i] {
	case '=', ':', '>':
		if s[i] == ':' && i+2 < len(s) && s[i+1] == '/' && s[i+2] == '/' {
			return true
		}
		name, ok := nameBefore(s, i)
		return ok && secretName(name)
	case '-':
		return before(s, i, "---") || before(s, i, "sk") || before(s, i, "pat") || before(s, i, "GOCSPX") || flagAt(s, i)
	case '_':
		return knownPrefix(s, i)
	case '.':
		return before(s, i, "ya29") || before(s, i, "SG")
	case 'J':
		return before(s, i, "ey")
	case 'A': // AKIA, ASIA
		return before(s, i, "AKI") || before(s, i, "ASI")
	case 'I':
		return before(s, i, "A") && i+1 < len(s) && s[i+1] == 'z'
	case 'x':
		return i+2 < len(s) && s[i+1] == 'o' && s[i+2] == 'x' || before(s, i, "") && i+3 < len(s) && s[i+1:i+4] == "app"
	case 'B', 'b':
		return schemeAt(s, i)
	}
	return false
}

func before(s string, i int, text string) bool { return strings.HasSuffix(s[:i], text) }

// afterEscape reports whether a character that is written as an escape ends before
// i: a line break or a tab, or what [jobs.Visible] writes out.
func afterEscape(s string, i int) bool {
	return i >= 2 && i <= len(s) && s[i-2] == '\\' && (s[i-1] == 'n' || s[i-1] == 'r' || s[i-1] == 't') ||
		afterHex(s, i, 'x', 2) || afterHex(s, i, 'u', 4) || afterHex(s, i, 'U', 8)
}

func afterHex(s string, i int, kind byte, digits int) bool {
	at := i - digits - 2
	return at >= 0 && i <= len(s) && s[at] == '\\' && s[at+1] == kind && hexLen(s[at+2:i]) == digits
}

// knownPrefix reports whether the underscore at i ends the first word of a token.
func knownPrefix(s string, i int) bool {
	for _, word := range firstWords {
		if before(s, i, word) {
			return true
		}
	}
	return false
}

var firstWords = [...]string{"zpw", "zpe", "bft", "ghp", "gho", "ghu", "ghs", "ghr", "github", "pat", "sk", "rk", "pk", "npm", "hf", "live", "test"}

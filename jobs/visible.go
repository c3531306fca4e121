package jobs

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns s as it may be shown on a terminal or a page. It escapes, as Go does
// (\x1b, \u202e), control and format characters, marks of direction, separators of
// lines and paragraphs, and bytes that are not UTF-8. Tabs and line ends stay; CR LF
// becomes LF. Applied again, it changes nothing.
func Visible(s string) string {
	if isPlain(s) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	b := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\n' || r == '\t' || n > 1 && !hidden(r) || n == 1 && ' ' <= r && r < 0x7f:
			b = append(b, s[i:i+n]...)
		case n == 1: // a byte that is not UTF-8, too
			b = fmt.Appendf(b, `\x%02x`, s[i])
		case r > 0xffff:
			b = fmt.Appendf(b, `\U%08x`, r)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
		i += n
	}
	return string(b)
}

// VisibleLine returns s as [Visible] does, with a blank for each tab and line end.
func VisibleLine(s string) string { return blanks.Replace(Visible(s)) }

var blanks = strings.NewReplacer("\n", " ", "\t", " ")

// IsVisible reports whether s can be a name: whether [VisibleLine] leaves it as it is.
func IsVisible(s string) bool { return VisibleLine(s) == s }

func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// isPlain reports whether s is nothing but visible ASCII, tabs and line ends, as
// nearly all texts are.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7f || c < ' ' && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

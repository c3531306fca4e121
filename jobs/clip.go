package jobs

import (
	"strings"
	"unicode/utf8"
)

// Clip returns s as valid UTF-8 of at most limit bytes: all of it, or its beginning up
// to a whole rune and then mark, such as "…", which may be empty. Bytes that are no
// UTF-8 become U+FFFD. Secrets must be removed before: a secret that was cut short may
// not be recognized.
func Clip(s string, limit int, mark string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	n := max(0, limit-len(mark))
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

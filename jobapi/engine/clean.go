package engine

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

// maxLine is how long a line of a log may be, and maxText a message, in bytes.
const (
	maxLine = 64 << 10
	maxText = 4 << 10
)

// paint is how programs color what they write, or move the cursor.
var paint = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b(?:\\[[0-9;:?<=>]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?)")
})

// plain returns s as valid UTF-8 with nothing in it that a terminal obeys. It keeps
// line ends, and makes a line end of CR LF.
func plain(s string) string {
	if isPlain(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = paint().ReplaceAllString(s, "")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)) {
			return ' '
		}
		return r
	}, s)
}

func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7f || c < ' ' && c != '\n' {
			return false
		}
	}
	return true
}

// text returns s as it may be shown in one line: without secrets, and not longer
// than maxText.
func text(s string) string {
	s = redact.Text(plain(s))
	return cut(strings.ReplaceAll(s, "\n", " "), maxText)
}

// cut returns s, or its beginning and how much is missing: limit bytes at most.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	head := jobs.Clip(s, limit-40, "") // for the mark
	return fmt.Sprintf("%s… [%d bytes cut]", head, len(s)-len(head))
}

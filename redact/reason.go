package redact

import (
	"regexp"
	"sync"
)

// namedScheme matches credentials after Bearer or Basic, also those that look like a word:
// see [scheme].
var namedScheme = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}`) })

// Reason returns why something failed without its secrets: as [Text], and without
// what follows the words Bearer and Basic even if it looks like a word. Reasons
// are kept for weeks, and quote servers and programs.
func Reason(s string) string { return namedScheme().ReplaceAllString(Text(s), "$1 "+Mark) }

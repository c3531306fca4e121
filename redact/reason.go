package redact

import (
	"regexp"
	"sync"
)

// called matches who is calling, also where prose would have a word: see [schemes].
var called = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}`) })

// Reason returns why something failed without its secrets: as [Text], and without
// what follows the words Bearer and Basic even if it looks like a word. Reasons
// are kept for weeks, and quote what servers and programs have said.
func Reason(s string) string { return called().ReplaceAllString(Text(s), "$1 "+Mark) }

package jobs

import (
	"regexp"
	"sync"
)

// Form returns the form of a name, a regular expression, which is compiled when it is
// first used: a process meets few of the forms that it knows, and a count like {0,63}
// takes 50 KiB.
func Form(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

var codeForm = Form(`^[A-Z][A-Z0-9_]{0,63}$`)

// ValidCode reports whether s can be a failure's code, such as QE_INPUT_ERROR:
// capitals, digits and underscores, a capital first, at most 64 of them.
func ValidCode(s string) bool { return codeForm().MatchString(s) }

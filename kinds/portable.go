package kinds

import (
	"regexp"
	"strings"
)

var repeat = regexp.MustCompile(`^\{\d+(,\d*)?\}`)

// isPortable reports whether a regular expression of Go, which Go has compiled, is one of
// ECMA-262 with flag u, too, which JSON Schema has, and means the same there. If in doubt it is
// not: it reports false for flags, named groups, \pN, \Q…\E, \A, \z, [[:alpha:]], \s (which is
// more there), escapes of what needs none, braces that repeat nothing, and all but ASCII.
func isPortable(pattern string) bool {
	class := false
	for i := 0; i < len(pattern); i++ {
		c, rest := pattern[i], pattern[i+1:]
		switch {
		case c < ' ' || c > '~':
			return false
		case c == '\\':
			if rest == "" {
				return false
			}
			i++
			escaped, after := rest[0], rest[1:]
			switch {
			case strings.IndexByte("dDwW", escaped) >= 0:
				if class && len(after) > 1 && after[0] == '-' && after[1] != ']' {
					return false // a class is no end of a range
				}
			case strings.IndexByte("bB", escaped) >= 0:
				if class || repeated(after) {
					return false
				}
			case escaped == '-' && !class, strings.IndexByte(`nrtfv^$\.*+?()[]{}|/-`, escaped) < 0:
				return false
			}
		case class:
			switch {
			case c == ']':
				class = false
			case c == '[' && strings.HasPrefix(rest, ":"), c == '-' && strings.HasPrefix(rest, `\`) && strings.IndexByte("dDwW", (rest + " ")[1]) >= 0:
				return false
			}
		case c == '[':
			class = true
			first := strings.TrimPrefix(rest, "^")
			i += len(rest) - len(first)
			if strings.HasPrefix(first, "]") {
				return false // a bracket for Go, an empty class there
			}
		case c == '(' && strings.HasPrefix(rest, "?"):
			if !strings.HasPrefix(rest, "?:") {
				return false
			}
		case c == '^' || c == '$':
			if repeated(rest) {
				return false
			}
		case c == '{':
			whole := repeat.FindString(pattern[i:])
			if whole == "" {
				return false
			}
			i += len(whole) - 1
		case c == '}' || c == ']':
			return false
		}
	}
	return true
}

func repeated(rest string) bool { return rest != "" && strings.IndexByte("*+?{", rest[0]) >= 0 }

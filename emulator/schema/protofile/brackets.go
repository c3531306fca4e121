package protofile

import (
	"fmt"
	"strings"
)

// checkBrackets refuses texts whose brackets nest too deep for a reader that calls itself
// for each level. It runs first, so that the depth is what a text is refused for.
func checkBrackets(s string) error {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{', '[', '(', '<':
			if depth++; depth > maxBrackets {
				return fmt.Errorf("brackets nest deeper than %d", maxBrackets)
			}
		case '}', ']', ')', '>':
			depth = max(0, depth-1)
		case '"', '\'':
			i = skipString(s, i)
		case '/':
			i = skipComment(s, i)
		}
	}
	return nil
}

// skipString returns where the string that begins at i ends. One that is
// not closed ends with its line, as the lexer sees it.
func skipString(s string, i int) int {
	for j := i + 1; j < len(s); j++ {
		switch s[j] {
		case s[i], '\n':
			return j
		case '\\':
			j++
		}
	}
	return len(s)
}

// skipComment returns where the comment at i ends, or i.
func skipComment(s string, i int) int {
	var end string
	switch rest := s[i:]; {
	case strings.HasPrefix(rest, "//"):
		end = "\n"
	case strings.HasPrefix(rest, "/*"):
		end = "*/"
	default:
		return i
	}
	n := strings.Index(s[i+2:], end)
	if n < 0 {
		return len(s)
	}
	return i + 2 + n + len(end) - 1
}

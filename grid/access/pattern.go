package access

import "strings"

// covers reports whether each subject that matches the narrower pattern also matches the wider one. Both must be valid patterns.
func covers(wider, narrower string) bool {
	for {
		w, moreW, inW := strings.Cut(wider, ".")
		n, moreN, inN := strings.Cut(narrower, ".")
		switch {
		case w == ">":
			return true // the narrower one has at least one token left
		case n == ">", w != "*" && w != n, inW != inN:
			return false
		case !inW:
			return true
		}
		wider, narrower = moreW, moreN
	}
}

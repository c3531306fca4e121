package access

import "strings"

// covers reports whether every subject that matches the narrower pattern matches the wider one. Both are valid.
func covers(wider, narrower string) bool {
	for {
		w, moreW, inW := strings.Cut(wider, ".")
		n, moreN, inN := strings.Cut(narrower, ".")
		switch {
		case w == ">":
			return true // the narrower one has at least this part
		case n == ">", w != "*" && w != n, inW != inN:
			return false
		case !inW:
			return true
		}
		wider, narrower = moreW, moreN
	}
}

package jobs

import "fmt"

// Count writes a count of things: 1 job, 2 jobs. thing is a noun whose plural ends in s.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Are is the verb behind such a count.
func Are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

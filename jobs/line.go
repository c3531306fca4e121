package jobs

import (
	"strconv"
	"strings"
)

// MaxLine is the longest line of a job's log, in bytes.
const MaxLine = 64 << 10

// How lines end that were longer: than MaxLine, or than somebody else had room for.
const (
	cutMark   = " … (line cut at 64 KiB)"
	shortMark = " … (line cut)"
)

// LogLine returns a line as it goes into a job's log: [Visible], and cut at [MaxLine] if
// it is longer. The line is marked if it was cut, here or, as cut says, before. It then
// ends with a whole word: a part of a secret may not be recognized as one.
func LogLine(s string, cut bool) string {
	mark := cutMark
	if cut && len(s) < MaxLine {
		mark = shortMark
	}
	if cut = cut || len(s) > MaxLine; cut {
		s = wholeWords(s)
	}
	s = Visible(s)
	if len(s) > MaxLine || cut && len(s)+len(mark) > MaxLine {
		s, cut = wholeWords(s), true
	}
	if cut {
		s += mark
	}
	return s
}

// wholeWords returns the beginning of s that leaves room for a mark, without its last
// word, if that is no longer than 1 KiB.
func wholeWords(s string) string {
	s = Clip(s[:min(len(s), MaxLine)], MaxLine-len(cutMark), "")
	if blank := strings.LastIndexAny(s, " \t"); blank >= len(s)-1<<10 && blank > 0 {
		s = s[:blank]
	}
	return s
}

// LeftOut returns the line that stands in a log for n lines which were left out.
func LeftOut(n int) string { return "… " + Count(n, "line") + " left out" }

var leftOut = Form(`^… (\d{1,15}) lines? left out$`)

// IsLeftOut reports whether a line stands for lines which were left out.
func IsLeftOut(line string) bool {
	return strings.HasPrefix(line, "… ") && leftOut().MatchString(line)
}

// LinesIn returns how many lines a line of a log stands for: see [LeftOut].
func LinesIn(line string) int {
	if !IsLeftOut(line) {
		return 1
	}
	n, _ := strconv.Atoi(leftOut().FindStringSubmatch(line)[1]) // of 15 digits
	return n
}

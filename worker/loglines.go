package worker

import (
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// progressEvery is how much time at least there is between two lines of progress in
// the log of a job: a document of 5000 pages is no log of 5000 lines.
const progressEvery = 2 * time.Second

// What an attempt may log. The first lines are written whatever there is. Of the others
// the newest are: so many a second, and more after a pause. A report has at most
// jobs.MaxLines lines with all that. What waits takes at most 256 KiB: the lines of a
// report that has failed, and those that have come since.
const (
	firstLines = 200
	firstBytes = 64 << 10
	// More than people can read, and little for Redis: it keeps 5 MB a job.
	lineRate  = 100
	byteRate  = 16 << 10
	mostLines = jobs.MaxLines/2 - 1
	mostBytes = 96 << 10 // more than the longest line
	// linesEvery is the time between two reports that carry lines: at most so often is
	// there a mark for what was left out.
	linesEvery = time.Second
)

// logLines are the lines of one attempt that are not yet known to be in the job's
// log. Those of a report that failed are kept for the next one, which carries them
// with their number, so that none is there twice. The zero value is empty.
type logLines struct {
	done int      // how many are known to be in the log
	sent []string // in a report whose reply is not known to have come

	took         time.Time // when lines were last put into a report
	lines, bytes float64   // how many more the rate allowed then

	first      []string // those that wait of the first lines
	firsts     int      // how many first lines there were, and their bytes
	firstBytes int
	leftOut    int      // how many came after them and before rest
	rest       []string // the newest lines, which wait
	restBytes  int

	newest string // the newest line of progress, which waits for its turn; empty for none
	shown  time.Time
	now    bool // write newest with the next report
}

// progress notes a line of progress, in place of one that still waits. One that is
// the last is not to wait.
func (l *logLines) progress(line string, last bool) {
	l.newest, l.now = line, l.now || last
}

// add notes a line, for which older ones may be left out.
func (l *logLines) add(line string) {
	if len(l.rest) == 0 && l.leftOut == 0 && l.firsts < firstLines && l.firstBytes+len(line) <= firstBytes {
		l.first = append(l.first, line)
		l.firsts++
		l.firstBytes += len(line)
		return
	}
	l.firsts = firstLines // a short line after one that was too long is not among the first
	l.rest = append(l.rest, line)
	l.restBytes += len(line)
	l.limit(mostLines, mostBytes)
}

// limit leaves out the oldest lines that are not among the first, but never the newest.
func (l *logLines) limit(lines, bytes int) {
	n := 0
	for ; n < len(l.rest)-1 && (len(l.rest)-n > lines || l.restBytes > bytes); n++ {
		l.restBytes -= len(l.rest[n])
		l.leftOut += jobs.LinesIn(l.rest[n]) // one may stand for others already
		l.rest[n] = ""
	}
	l.rest = l.rest[n:]
}

// take returns the lines to write now. After a report that has failed these are its lines
// again, and nothing else. At the end of the job no line waits.
func (l *logLines) take(end bool) jobs.Lines {
	now := time.Now()
	urgent := end || l.now
	if l.newest != "" && (urgent || now.Sub(l.shown) >= progressEvery) {
		l.add(l.newest)
		l.newest, l.now, l.shown = "", false, now
	}
	if len(l.sent) == 0 && len(l.first)+len(l.rest) > 0 && (urgent || now.Sub(l.took) >= linesEvery) {
		l.next(end, now)
	}
	return jobs.Lines{Before: l.done, Text: slices.Clip(l.sent)}
}

// next makes the lines that wait those of a report.
func (l *logLines) next(end bool, now time.Time) {
	since := now.Sub(l.took).Seconds()
	l.took = now
	l.lines, l.bytes = min(l.lines+since*lineRate, mostLines), min(l.bytes+since*byteRate, mostBytes)
	if !end {
		l.limit(int(l.lines), int(l.bytes))
	}
	l.lines, l.bytes = max(0, l.lines-float64(len(l.rest))), max(0, l.bytes-float64(l.restBytes))

	l.sent, l.first = l.first, nil
	if l.leftOut > 0 {
		l.sent = append(l.sent, jobs.LeftOut(l.leftOut))
	}
	l.sent = append(l.sent, l.rest...)
	clear(l.rest)
	l.leftOut, l.rest, l.restBytes = 0, l.rest[:0], 0
}

// waits reports whether there are lines that the last take did not return.
func (l *logLines) waits() bool { return len(l.first)+len(l.rest) > 0 }

// written notes that the lines of the last take are in the log.
func (l *logLines) written() {
	l.done += len(l.sent)
	l.sent = nil
}

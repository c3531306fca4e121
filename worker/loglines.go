package worker

import (
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// progressEvery is how much time at least there is between two lines of progress in
// the log of a job: a document of 5000 pages is no log of 5000 lines.
const progressEvery = 2 * time.Second

// logLines are the lines of one attempt that are not yet known to be in the job's
// log. Those of a report that failed are kept for the next one, which carries them
// with their number, so that none is there twice. The zero value is empty.
type logLines struct {
	done   int      // how many are known to be in the log
	ready  []string // to be written, or being written
	newest string   // the newest line of progress, which waits for its turn; empty for none
	shown  time.Time
	now    bool // write newest with the next report
}

// progress notes a line of progress, in place of one that still waits. One that is
// the last is not to wait.
func (l *logLines) progress(line string, last bool) {
	l.newest, l.now = line, l.now || last
}

// add notes a line of the job's own. One that finds no room is left out.
func (l *logLines) add(line string) {
	if len(l.ready) < jobs.MaxLines {
		l.ready = append(l.ready, line)
	}
}

// take returns the lines to write now; at the end of the job that is all of them.
func (l *logLines) take(end bool) jobs.Lines {
	if l.newest != "" && (end || l.now || time.Since(l.shown) >= progressEvery) && len(l.ready) < jobs.MaxLines {
		l.ready = append(l.ready, l.newest)
		l.newest, l.now, l.shown = "", false, time.Now()
	}
	return jobs.Lines{Before: l.done, Text: slices.Clip(l.ready)}
}

// written notes that lines of an earlier take are in the log.
func (l *logLines) written(lines jobs.Lines) {
	l.done += len(lines.Text)
	l.ready = l.ready[len(lines.Text):]
}

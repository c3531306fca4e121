package jobapi

import (
	"encoding/json"
	"slices"
)

// snapshot is a job, and the end of its log, as they were at one time. It does not
// change, so that everybody who follows the job shares it.
type snapshot struct {
	job  *Job   // nil when there is no such job, or not any more
	data []byte // the job as JSON, without a newline

	// The end of the log, if somebody follows it: lines[i] is line first+i of those
	// that were seen here. Whole says that the job has ended and these are its last.
	lines []logLine
	first int
	whole bool

	next chan struct{} // closed when this is not the newest any more
}

// logLine is a line as a JSON object.
type logLine struct {
	pos  string
	data []byte
}

// end returns the number of the line that comes next.
func (m *snapshot) end() int { return m.first + len(m.lines) }

// ended reports whether there will be no other snapshot.
func (m *snapshot) ended() bool { return m.job == nil || m.job.Status.Terminal() }

func (m *snapshot) version() string {
	if m.job == nil {
		return ""
	}
	return m.job.Version
}

// after returns the number of the line that follows the one at pos, if that line
// is among these.
func (m *snapshot) after(pos string) (int, bool) {
	for i, line := range slices.Backward(m.lines) {
		if line.pos == pos {
			return m.first + i + 1, true
		}
	}
	return 0, false
}

// encodeLines returns lines as JSON objects.
func encodeLines(lines []Line) ([]logLine, error) {
	encoded := make([]logLine, 0, len(lines))
	for _, l := range lines {
		data, err := json.Marshal(struct {
			Time Time   `json:"time"`
			Text string `json:"text"`
		}{At(l.Time), l.Text})
		if err != nil {
			return nil, err
		}
		encoded = append(encoded, logLine{l.Pos, data})
	}
	return encoded, nil
}

// The window of a log that is followed: how much of it is kept for those who are
// slow. What comes in two rounds is always kept, and the lines that the log of a
// new listener begins with.
const (
	windowBytes = 2 << 20
	logPage     = maxTail // lines at most in one call
	logPages    = 4       // calls at most in one round
)

// window is the end of a log while it grows. Only its hub's round touches it.
type window struct {
	lines       []logLine // whose first elements snapshots may share; never written to again
	first       int
	size        int    // bytes of data in lines
	pos         string // of the last line that was read
	last, older int    // where the last round began to add lines, and the one before it
}

// add takes in the lines of a round.
func (w *window) add(lines []logLine) {
	w.older, w.last = w.last, w.first+len(w.lines)
	w.lines = append(w.lines, lines...)
	for _, l := range lines {
		w.size += len(l.data)
	}
	most := min(w.older-w.first, len(w.lines)-defaultTail)
	drop := 0
	for drop < most && w.size > windowBytes {
		w.size -= len(w.lines[drop].data)
		drop++
	}
	w.lines, w.first = w.lines[drop:], w.first+drop
}

// tail returns the number of the line that a log begins with for those who have
// seen none of it.
func (m *snapshot) tail() int { return max(m.first, m.end()-defaultTail) }

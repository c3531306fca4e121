package jobapi

import (
	"encoding/json"
	"slices"
)

// snapshot is a job, and the end of its log, as they were at one time. It does not
// change, so all listeners of the job share it.
type snapshot struct {
	job  *Job   // nil when there is no such job, or not any more
	data []byte // the job as JSON, without a newline

	// The end of the log, if it has listeners: lines[i] is line first+i, counted from
	// the first that was read here. Whole: the job has ended and these are its last.
	lines []logLine
	first int
	whole bool

	next chan struct{} // closed when there is a newer one
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

// after returns the number of the line that follows the one at position pos, if that
// line is among these.
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

// The window of a log: how much of it is kept for slow listeners. The lines of the last
// two rounds are always kept, and those that a new listener begins with.
const (
	windowBytes = 2 << 20
	logPage     = maxTail // lines at most in one call
	logPages    = 4       // calls at most in one round
)

// window is the end of a log while it grows. Only its hub's round uses it.
type window struct {
	lines       []logLine // snapshots may share its first elements; never written to again
	first       int
	size        int    // bytes of data in lines
	pos         string // the position of the last line that was read
	last, older int    // where the last round began to add lines, and the one before it
}

// add adds the lines of a round.
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

// tail returns the number of the first line for a listener that has seen none.
func (m *snapshot) tail() int { return max(m.first, m.end()-defaultTail) }

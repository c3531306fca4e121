package jobapi

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

// The limits of tailLines and sinceSeconds.
const (
	defaultTail = 200
	maxTail     = 5000
	maxSince    = 7 * 24 * 60 * 60
)

// log answers with the end of a job's log.
func (c *scope) log(w http.ResponseWriter, r *http.Request) error {
	id, p, err := target(r, "tailLines", "sinceSeconds", "times")
	if err != nil {
		return err
	}
	tail, err := p.number("tailLines", maxTail, defaultTail)
	if err != nil {
		return err
	}
	q := LogQuery{Tail: tail + 1} // one more tells whether the response begins where the log does
	since, err := p.number("sinceSeconds", maxSince, 0)
	if err != nil {
		return err
	}
	if since > 0 {
		q.Since = time.Now().Add(-time.Duration(since) * time.Second)
	}
	times, _, err := p.truth("times")
	if err != nil {
		return err
	}
	l, err := c.hub.logOf(r.Context(), id, q)
	if err != nil {
		return ofJob(err)
	}
	dropped := l.Dropped
	if over := len(l.Lines) - tail; over > 0 {
		l.Lines, dropped = l.Lines[over:], 0
	}
	if since > 0 {
		dropped = 0
	}
	body := logText(l.Lines, dropped, times)
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a caller that left needs no response
	return nil
}

// LineTime is how a line of a log begins where times are asked for: RFC 3339 in UTC, to the
// millisecond, and two blanks.
func LineTime(t time.Time) string { return t.UTC().Format(timeFormat) + "  " }

// logText returns lines as text, each with its time if times are asked for, and first how
// many before them were dropped, if any were.
func logText(lines []Line, dropped int, times bool) []byte {
	var b bytes.Buffer
	if dropped > 0 {
		fmt.Fprintf(&b, "[log truncated: %d lines dropped]\n", dropped)
	}
	for _, line := range lines {
		if times {
			b.WriteString(LineTime(line.Time))
		}
		b.WriteString(line.Text)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// maxLine is the longest line of a log that is shown, in bytes.
const maxLine = 64 << 10

// ShownLines returns the lines of a log, given in order, as they are shown. A secret
// may span several lines, so it must also be given lines before the first one shown.
// The zero value is ready.
type ShownLines struct{ secrets redact.Lines }

var lineEnds = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")

// Next returns what is shown of the next line.
func (s *ShownLines) Next(text string) string {
	if jobs.IsLeftOut(text) {
		defer s.secrets.Gap()
	}
	return ShownText(s.secrets.Line(lineEnds.Replace(text)), maxLine)
}

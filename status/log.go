package status

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// LogLine is one line of a job's log.
type LogLine struct {
	Pos  string // its place in the log, for a later call
	Time time.Time
	Text string
}

// LogQuery says which lines of a log to return: of those after After and not
// older than Since the last Tail, or with After the first.
type LogQuery struct {
	Tail  int       // lines at most, positive
	Since time.Time // zero for any
	After string    // Pos of a line, or "0" for the place before the first; empty for all. What is no Pos counts as empty.
}

// Lines returns a part of a job's log, oldest line first, in one round trip that
// reads no other lines. The error wraps [fs.ErrNotExist] when nothing is known of
// the job; one without a log, or at whose key is something else, has no lines.
func (s *Store) Lines(ctx context.Context, id jobs.ID, q LogQuery) ([]LogLine, error) {
	how, after := "last", pos{}
	if p, ok := parsePos(q.After); ok {
		how, after = "first", p
	}
	lines, known, err := s.lines(ctx, id, q.Tail, how, after, q.Since)
	if err == nil && !known {
		err = fmt.Errorf("log of job %s: %w", id, fs.ErrNotExist)
	}
	return lines, err
}

// LinesBefore returns the last lines, limit at most, that are in a job's log before
// the one at pos, oldest first: what those that come next may go on with.
func (s *Store) LinesBefore(ctx context.Context, id jobs.ID, pos string, limit int) ([]LogLine, error) {
	p, ok := parsePos(pos)
	if !ok {
		return nil, nil
	}
	lines, _, err := s.lines(ctx, id, limit, "before", p, time.Time{})
	return lines, err
}

// lines asks for limit lines at most: "first" after a place, "last" of all, or those
// "before" a place. It reports whether anything is known of the job.
func (s *Store) lines(ctx context.Context, id jobs.ID, limit int, how string, p pos, since time.Time) ([]LogLine, bool, error) {
	from := int64(0)
	if !since.IsZero() {
		from = max(0, since.UnixMilli())
	}
	got, err := s.run(ctx, fmt.Sprintf("read log of job %s", id), linesScript, []string{jobKey(id), logKey(id)}, limit, how, p.ms, p.n, from)
	var lines []LogLine
	const before = 3 // what the script returns before the lines
	for i := before; i < len(got); i++ {
		ms, text, _ := strings.Cut(got.Text(i), " ")
		at, _ := strconv.ParseInt(ms, 10, 64)
		place := placeOf(got.Number(0)+int64(i-before), got.Number(1), got.Number(2))
		place.ms = at
		lines = append(lines, LogLine{Pos: place.String(), Time: time.UnixMilli(at).UTC(), Text: text})
	}
	return lines, len(got) > 0, err
}

// pos is the place of a line: its time in milliseconds and its number, from 1, among
// all lines there were. Two numbers, because Redis may lose a log, and another
// line has the number then. The mark for lines that were dropped has the time and the
// number of the last of them.
type pos struct {
	ms, n int64
	mark  bool
}

// placeOf returns the number of line i of those that a log has kept, of which head stand
// before those that were dropped.
func placeOf(i, dropped, head int64) pos {
	switch {
	case head == 0:
		return pos{n: i + dropped}
	case i <= head:
		return pos{n: i}
	default:
		return pos{n: i - 1 + dropped, mark: i == head+1}
	}
}

const markSuffix = "-0"

func (p pos) String() string {
	s := fmt.Sprintf("%d-%d", p.ms, p.n)
	if p.mark {
		s += markSuffix // no line has the same
	}
	return s
}

func parsePos(s string) (p pos, ok bool) {
	if s == "0" {
		return pos{}, true // no line has it
	}
	ms, seq, cut := strings.Cut(s, "-")
	if !cut || len(s) > 40 {
		return pos{}, false
	}
	seq, mark := strings.CutSuffix(seq, markSuffix)
	a, err := strconv.ParseUint(ms, 10, 63)
	b, err2 := strconv.ParseUint(seq, 10, 63)
	if err != nil || err2 != nil {
		return pos{}, false
	}
	return pos{int64(a), int64(b), mark}, true //nolint:gosec // 63 bits
}

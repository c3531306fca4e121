package status

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

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
	from := "-"
	if !q.Since.IsZero() {
		from = strconv.FormatInt(max(0, q.Since.UnixMilli()), 10)
	}
	after, follows := parsePos(q.After)
	if follows && after.ms >= q.Since.UnixMilli() {
		from = "(" + after.String()
	}
	var known *redis.IntCmd
	var lines *redis.XMessageSliceCmd
	_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the errors of both commands count
		known = pipe.Exists(ctx, jobKey(id))
		if follows {
			lines = pipe.XRangeN(ctx, logKey(id), from, "+", int64(q.Tail))
		} else {
			lines = pipe.XRevRangeN(ctx, logKey(id), "+", from, int64(q.Tail))
		}
		return nil
	})
	if err := errors.Join(known.Err(), lines.Err()); err != nil && !redis.HasErrorPrefix(lines.Err(), "WRONGTYPE") {
		return nil, unavailable(fmt.Sprintf("read log of job %s", id), err)
	}
	if known.Val() == 0 {
		return nil, fmt.Errorf("log of job %s: %w", id, fs.ErrNotExist)
	}
	got := logLines(lines.Val())
	if !follows {
		slices.Reverse(got)
	}
	return got, nil
}

// LinesBefore returns the last lines, limit at most, that are in a job's log before
// the one at pos, oldest first: what those that come next may go on with.
func (s *Store) LinesBefore(ctx context.Context, id jobs.ID, pos string, limit int) ([]LogLine, error) {
	entries, err := s.rdb.XRevRangeN(ctx, logKey(id), "("+pos, "-", int64(limit)).Result()
	if err != nil {
		return nil, unavailable(fmt.Sprintf("read log of job %s", id), err)
	}
	lines := logLines(entries)
	slices.Reverse(lines)
	return lines, nil
}

func logLines(entries []redis.XMessage) []LogLine {
	lines := make([]LogLine, len(entries))
	for i, e := range entries {
		text, _ := e.Values["line"].(string)
		ms, _, _ := strings.Cut(e.ID, "-")
		n, _ := strconv.ParseInt(ms, 10, 64)
		lines[i] = LogLine{Pos: e.ID, Time: time.UnixMilli(n).UTC(), Text: text}
	}
	return lines
}

// pos is the id of an entry of a stream.
type pos struct{ ms, seq int64 }

func (p pos) String() string { return fmt.Sprintf("%d-%d", p.ms, p.seq) }

func parsePos(s string) (p pos, ok bool) {
	if s == "0" {
		return pos{}, true // no entry has it
	}
	ms, seq, cut := strings.Cut(s, "-")
	if !cut || len(s) > 40 {
		return pos{}, false
	}
	a, err := strconv.ParseUint(ms, 10, 63)
	b, err2 := strconv.ParseUint(seq, 10, 63)
	if err != nil || err2 != nil {
		return pos{}, false
	}
	return pos{int64(a), int64(b)}, true //nolint:gosec // 63 bits
}

package queue

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

const (
	// maxLog is how many lines of a job's log are kept: the newest.
	maxLog = 300
	// logTTL is how long they are kept after the last of them.
	logTTL = 24 * time.Hour
)

// LogLine is a line that a job has written.
type LogLine struct {
	At   time.Time
	N    uint64 // its number, from 1, among all lines that the job has written
	Text string
}

// Write adds lines to the log of a job. before is how many lines came earlier under the same lease: with it a repeated
// call adds none twice. Errors are those of [Queue.Extend]. If another value is under the log's key, it stays as it is.
func (q *Queue) Write(ctx context.Context, c Caller, id jobs.ID, lease string, before int, lines []string) error {
	args := []any{lease, string(c.Kind), q.Now().UnixMilli(), min(logTTL, q.ResultTTL).Milliseconds(), maxLog, before}
	for _, line := range lines {
		args = append(args, line)
	}
	a, err := q.runAs(ctx, c, "write log", logScript, []string{leaseKey(id), statusKey(id), logKey(id)}, args...)
	if err == nil && a.Text(0) != "ok" {
		err = unexpected("write log", a)
	}
	return err
}

// Lines returns the lines of a job's log that are kept, oldest first. A job without a log, or at whose key
// is something else, has none.
func (q *Queue) Lines(ctx context.Context, id jobs.ID) ([]LogLine, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	list, err := q.rdb.LRange(ctx, logKey(id), 0, -1).Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable("read the log of job "+string(id), err)
	}
	lines := make([]LogLine, 0, len(list))
	for _, entry := range list {
		place, text, _ := strings.Cut(entry, " ")
		ms, n, _ := strings.Cut(place, "-")
		at, err := strconv.ParseInt(ms, 10, 64)
		number, err2 := strconv.ParseUint(n, 10, 32)
		if err != nil || err2 != nil {
			continue // somebody else has written here
		}
		lines = append(lines, LogLine{At: time.UnixMilli(at).UTC(), N: number, Text: text})
	}
	return lines, nil
}

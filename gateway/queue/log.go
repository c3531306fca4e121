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

// Log are lines that a job has written. Before is how many came earlier under the same lease: with it a repeated call
// adds none twice.
type Log struct {
	Before int
	Lines  []string
}

// LogOf are lines that one job has written.
type LogOf struct {
	Job   jobs.ID
	Lease string
	Log
}

// Write adds lines to the logs of jobs, [MaxBatch] at most. Each has its own error, as of [Queue.Extend]. If another
// value is under a log's key, it stays as it is.
func (q *Queue) Write(ctx context.Context, c Caller, logs []LogOf) []error {
	calls := make([]workerCall, len(logs))
	for i, l := range logs {
		calls[i] = workerCall{c, append([]any{string(l.Job), l.Lease, string(c.Kind)}, l.args()...)}
		calls[i].args = append(calls[i].args, l.lines()...)
	}
	errs := make([]error, len(logs))
	for i, a := range q.runEach(ctx, "write log", logScript, q.logRules(), calls) {
		if errs[i] = a.err; a.err == nil && a.Text(0) != "ok" {
			errs[i] = unexpected("write log", a.Reply)
		}
	}
	return errs
}

// logRules are the arguments of the script that all calls share.
func (q *Queue) logRules() []any {
	return []any{q.Now().UnixMilli(), min(logTTL, q.ResultTTL).Milliseconds(), maxLog}
}

// args are the arguments of a script about lines, and lines those that come last.
func (l *Log) args() []any { return []any{l.Before, len(l.Lines)} }

func (l *Log) lines() []any {
	all := make([]any, len(l.Lines))
	for i, line := range l.Lines {
		all[i] = line
	}
	return all
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

package provider

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// A gateway keeps the last events of a job and their times, and the newest lines that jobs of other kinds
// than zpe have written. The log is made from these, so of earlier runs it has only such lines.

// position is the position of a line: its time, its kind, and its number among lines of
// one kind.
type position struct {
	ms   int64
	kind int
	n    uint64
}

// The kinds of lines, in the order in which they come when their times are equal.
const (
	lineSubmitted = iota
	lineFirstRun
	lineLeased
	lineWritten  // n is its number
	lineProgress // n is a hash of it: another text is a new line
	lineCancel
	lineOutcome
	lineTraceback // n counts
)

// String writes a position as a [jobapi.Line] has it.
func (p position) String() string { return fmt.Sprintf("%d-%d-%d", p.ms, p.kind, p.n) }

// parsePosition reads what String writes. Anything else is a position before all lines.
func parsePosition(s string) position {
	before := position{ms: -1}
	parts := strings.Split(s, "-")
	if len(parts) != 3 {
		return before
	}
	ms, err := strconv.ParseUint(parts[0], 10, 62)
	kind, err2 := strconv.ParseUint(parts[1], 10, 8)
	n, err3 := strconv.ParseUint(parts[2], 10, 32)
	if err != nil || err2 != nil || err3 != nil {
		return before
	}
	return position{int64(ms), int(kind), n} //nolint:gosec // 62 and 8 bits
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.ms, q.ms), cmp.Compare(p.kind, q.kind), cmp.Compare(p.n, q.n))
}

// after reports whether a line at p comes after one at q.
func (p position) after(q position) bool {
	if p.ms == q.ms && p.kind == q.kind && p.kind == lineProgress {
		return p.n != q.n
	}
	return p.compare(q) > 0
}

// zpeLine is a line with its position.
type zpeLine struct {
	position
	at   time.Time
	text string
}

// Log implements [jobapi.Jobs].
func (z *ZPE) Log(ctx context.Context, id string, q jobapi.LogQuery) (jobapi.Log, error) {
	job, err := queue.ParseID(id)
	if err != nil {
		return jobapi.Log{}, jobapi.NoJob(id)
	}
	record, err := z.Queue.Job(ctx, job)
	if isNoJob(err) || err == nil && !z.shows(&record) {
		return jobapi.Log{}, jobapi.NoJob(id)
	}
	if err != nil {
		return jobapi.Log{}, notDone(err)
	}
	var written []queue.LogLine
	if z.Others {
		if written, err = z.Queue.Lines(ctx, job); err != nil {
			return jobapi.Log{}, notDone(err)
		}
	}
	after := parsePosition(q.After)
	var log jobapi.Log
	for _, l := range zpeLines(&record, written) {
		if l.after(after) && !l.at.Before(q.Since) {
			log.Lines = append(log.Lines, jobapi.Line{Pos: l.String(), Time: l.at, Text: l.text})
		}
	}
	if over := len(log.Lines) - q.Tail; over > 0 && q.After == "" {
		log.Lines = log.Lines[over:]
	} else if over > 0 {
		log.Lines = log.Lines[:q.Tail]
	}
	return log, nil
}

// zpeLines tells the life of a job by its record and what it has written, oldest line first, without secrets.
func zpeLines(q *queue.Job, written []queue.LogLine) []zpeLine {
	j, ok := zpeHead(q)
	if !ok {
		return nil
	}
	updated := cmp.Or(parseTime(q.UpdatedAt), j.CreatedAt.Time)
	var lines []zpeLine
	add := func(at, shown time.Time, kind int, n uint64, text string) {
		lines = append(lines, zpeLine{position{max(0, at.UnixMilli()), kind, n}, shown, text})
	}
	note := func(at time.Time, kind int, format string, args ...any) {
		if !at.IsZero() {
			add(at, at, kind, 0, fmt.Sprintf(format, args...))
		}
	}
	note(j.CreatedAt.Time, lineSubmitted, "submitted")
	if q.FirstLeasedAt.Before(q.LeasedAt) {
		note(q.FirstLeasedAt, lineFirstRun, "first run began")
	}
	note(q.LeasedAt, lineLeased, "%sleased by %s", attemptWord(q.Attempt), workerWord(q))
	for i, l := range written {
		if i == 0 && l.N > 1 {
			add(l.At, l.At, lineWritten, l.N-1, jobs.LeftOut(int(l.N-1))) //nolint:gosec // of 32 bits
		}
		add(l.At, l.At, lineWritten, l.N, l.Text)
	}
	switch q.State() {
	case queue.Started:
		// Heartbeats come also without news, so their time is not its position.
		if text := zpeProgress(q); text != "" && len(written) == 0 { // which has the messages
			add(q.LeasedAt, updated, lineProgress, hash(text), text)
		}
		if q.CancelRequested {
			add(q.LeasedAt, updated, lineCancel, 0, "to be canceled")
		}
	case queue.Queued:
		again := ""
		if !q.RunAfter.IsZero() {
			again = "; it runs again after " + q.RunAfter.UTC().Format("2006-01-02T15:04:05.000Z")
		}
		if q.Detail != "" {
			note(updated, lineOutcome, "%s%s", q.Detail, again)
		}
	case queue.Finished:
		note(j.FinishedAt.Time, lineOutcome, "finished%s", before(": ", q.Detail))
	case queue.Failed:
		note(j.FinishedAt.Time, lineOutcome, "failed%s", before(" ", q.Detail))
	case queue.Canceled:
		note(j.FinishedAt.Time, lineOutcome, "canceled")
	}
	// The time of an earlier run's traceback is not known any more.
	named := q.ErrorCode != "" && strings.Contains(q.Detail, q.ErrorCode+":")
	if state := q.State(); named && q.Traceback != "" && (state == queue.Queued || state == queue.Failed) {
		at := updated
		if !j.FinishedAt.IsZero() {
			at = j.FinishedAt.Time
		}
		for i, text := range strings.Split(strings.TrimRight(q.Traceback, "\r\n"), "\n") {
			add(at, at, lineTraceback, uint64(i), strings.TrimSuffix(text, "\r")) //nolint:gosec // a line's number
		}
	}
	slices.SortFunc(lines, func(a, b zpeLine) int { return a.compare(b.position) })
	var shown jobapi.ShownLines
	for i := range lines {
		lines[i].text = shown.Next(lines[i].text)
	}
	return lines
}

func attemptWord(n int) string {
	if n < 1 {
		return ""
	}
	return fmt.Sprintf("attempt %d: ", n)
}

func workerWord(q *queue.Job) string {
	switch {
	case q.Worker == "":
		return "a worker"
	case q.WorkerName == "" || q.WorkerName == q.Worker:
		return q.Worker
	}
	return q.WorkerName + " (" + q.Worker + ")"
}

// before returns s behind a separator, or nothing if there is none.
func before(separator, s string) string {
	if s == "" {
		return ""
	}
	return separator + s
}

func hash(text string) uint64 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(text))
	return uint64(sum.Sum32())
}

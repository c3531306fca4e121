package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub/provider"
)

// How much dev prints of logs.
const (
	logEndLines = 10
	logEndJobs  = 5
)

// printLogEnds prints the last lines of the logs of jobs of people's own kinds that have failed or have left no
// files: the logs are gone once dev has ended.
func printLogEnds(ctx context.Context, out io.Writer, from *provider.Fleet, rows []endedJob) error {
	ctx, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	var b strings.Builder
	left := 0
	for i, shown := 0, 0; i < len(rows); i++ {
		r := rows[i]
		if !r.wantsLog() {
			continue
		}
		if shown++; shown > logEndJobs {
			left++
			continue
		}
		// One line more: the last one tells how the attempt ended, which stands in the table.
		log, err := from.Log(ctx, r.ID, jobapi.LogQuery{Tail: logEndLines + 1})
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "\nend of the log of %s:\n", oneLine(r.name()))
		lines := log.Lines
		if n := len(lines); n > 0 && strings.HasPrefix(lines[n-1].Text, fmt.Sprintf("attempt %d ", r.Attempt)) {
			lines = lines[:n-1]
		}
		for _, l := range lines[max(0, len(lines)-logEndLines):] {
			fmt.Fprintf(&b, "  %s\n", oneLine(l.Text))
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "\nthe logs of %s more are not shown\n", jobs.Count(left, "job"))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// wantsLog reports whether the log is all that tells what the program of a job has done, or why it has failed.
func (e endedJob) wantsLog() bool {
	kind := kindOf(e.Type)
	if _, ours := builtIn[kind]; ours || e.Type == unknownType {
		return false
	}
	return e.Status == jobs.Failed || e.Status == jobs.Succeeded && e.made().hasNoFiles()
}

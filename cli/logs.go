package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
	apiclient "github.com/batchfleet/batchfleet/jobapi/client"
)

func logsCommand(c *connection) *cobra.Command {
	var q apiclient.LogQuery
	var since span
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use: "logs JOB", Short: "Print the end of a job's log", Args: cobra.ExactArgs(1),
		Example: `  batchfleet logs -f 01KDZ3NDEKTSV4RRFFQ69G5FAV
  batchfleet logs --times --since 10m 01KDZ3NDEKTSV4RRFFQ69G5FAV`,
	}
	flags := cmd.Flags()
	c.flags(cmd)
	c.scopeFlag(cmd)
	flags.IntVar(&q.Tail, "tail", 200, "how many lines, at most 5000")
	flags.Var(&since, "since", "only lines not older than this, such as 10m, 3d or 600, at most 7d")
	flags.BoolVar(&q.Times, "times", false, "begin each line with its time")
	flags.BoolVarP(&follow, "follow", "f", false, "begin with the last 200 lines and go on until the job has ended")
	jsonFlag(cmd, &asJSON)
	cmd.ValidArgsFunction = c.completeJobs
	about := c.ofJob(needRedis, "read log of", func(ctx context.Context, cmd *cobra.Command, j jobapi.Job) error {
		out := cmd.OutOrStdout()
		if follow {
			err := c.Follow(ctx, j.Scope, j.ID, true, func(e apiclient.Event) error { return printLines(out, e.Lines, q.Times, asJSON) })
			return interrupted(ctx, err, c.group, c.given(), j.ID)
		}
		q.Since, q.Times = since.D(), q.Times || asJSON
		text, err := c.Log(ctx, j.Scope, j.ID, q)
		if err != nil {
			return err
		}
		if asJSON {
			return printLines(out, linesOf(text), false, true)
		}
		_, err = io.WriteString(out, severalLines([]byte(text)))
		return err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case q.Tail < 1 || q.Tail > 5000:
			return program.Exit(program.Usage, fmt.Errorf("--tail is %d: must be from 1 to 5000", q.Tail))
		case flags.Changed("since") && (since.D() < time.Second || since.D() > 7*24*time.Hour):
			return program.Exit(program.Usage, fmt.Errorf("--since is %s: must be from 1s to 7d", since.D()))
		case follow && (flags.Changed("tail") || flags.Changed("since")):
			return program.Exit(program.Usage, errors.New("--follow begins with the last 200 lines: leave out --tail and --since"))
		}
		return about(cmd, args)
	}
	return cmd
}

// logRow is how a line of a log is printed as JSON.
type logRow struct {
	Time jobapi.Time `json:"time"`
	Text string      `json:"text"`
}

// linesOf reads a log whose lines have their times. A line without one says what was dropped.
func linesOf(text string) (lines []jobapi.Line) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		at, rest, _ := strings.Cut(line, "  ")
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			rest = line
		}
		lines = append(lines, jobapi.Line{Time: t, Text: rest})
	}
	return lines
}

func printLines(out io.Writer, lines []jobapi.Line, times, asJSON bool) error {
	for _, l := range lines {
		if asJSON {
			if err := printJSON(out, logRow{jobapi.At(l.Time), l.Text}); err != nil {
				return err
			}
			continue
		}
		text := oneLine(l.Text)
		if times {
			text = jobapi.LineTime(l.Time) + text
		}
		if _, err := fmt.Fprintf(out, "%s\n", text); err != nil {
			return err
		}
	}
	return nil
}

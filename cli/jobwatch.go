package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apiclient "github.com/batchfleet/batchfleet/jobapi/client"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

func jobWatchCommand(d *jobClient) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "watch ID", Short: "Print every change of a job until it ends; exit code 1 unless it succeeded", Args: cobra.ExactArgs(1),
		RunE: d.aboutJob("watch", func(ctx context.Context, cmd *cobra.Command, j jobapi.Job) error {
			return d.watch(ctx, cmd.OutOrStdout(), j.ID, asJSON)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the whole job as JSON, one line a change")
	return cmd
}

// watch prints every change of a job of the client's scope until it ends.
func (d *jobClient) watch(ctx context.Context, out io.Writer, id string, asJSON bool) error {
	var last jobapi.Job
	printed := ""
	err := d.Follow(ctx, d.scope, id, false, func(e apiclient.Event) error {
		if e.Job == nil {
			return nil
		}
		last = *e.Job
		if asJSON {
			return printJSON(out, last)
		}
		line := changeLine(last)
		if line == printed {
			return nil
		}
		printed = line
		_, err := fmt.Fprintf(out, "%s  %s\n", time.Now().UTC().Format(time.RFC3339), line)
		return err
	})
	if err != nil {
		return err
	}
	return ended(last)
}

// changeLine says in a line how a job stands.
func changeLine(j jobapi.Job) string {
	p := j.Progress
	line := fmt.Sprintf("%-9s %d/%d", j.Status, p.Completed, p.Total)
	switch {
	case j.Error != nil:
		line += "  " + j.Error.Code + ": " + j.Error.Message
	case p.Current >= 1 && p.Current <= len(j.Steps):
		s := j.Steps[p.Current-1]
		line += "  " + strings.TrimSuffix(s.Name+": "+s.Message, ": ")
	}
	return oneLine(line)
}

func jobLogsCommand(d *jobClient) *cobra.Command {
	var tail int
	var since span
	var follow bool
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Print the end of a job's log, line by line", Args: cobra.ExactArgs(1),
		Long: "Print the end of a job's log, line by line, without the times of its lines: the events of the API have those.",
	}
	flags := cmd.Flags()
	flags.IntVar(&tail, "tail", 200, "how many lines, at most 5000")
	flags.Var(&since, "since", "only lines not older than this, such as 10m, 3d or 600, at most 7d")
	flags.BoolVarP(&follow, "follow", "f", false, "begin with the last 200 lines and go on until the job has ended")
	about := d.aboutJob("read log of", func(ctx context.Context, cmd *cobra.Command, j jobapi.Job) error {
		if follow {
			return d.Follow(ctx, d.scope, j.ID, true, func(e apiclient.Event) error { return printLines(cmd.OutOrStdout(), e.Lines) })
		}
		text, err := d.Log(ctx, d.scope, j.ID, tail, since.D())
		if err != nil {
			return err
		}
		_, err = io.WriteString(cmd.OutOrStdout(), severalLines([]byte(text)))
		return err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case tail < 1 || tail > 5000:
			return program.Exit(program.Usage, fmt.Errorf("--tail is %d: must be from 1 to 5000", tail))
		case flags.Changed("since") && (since.D() < time.Second || since.D() > 7*24*time.Hour):
			return program.Exit(program.Usage, fmt.Errorf("--since is %s: must be from 1s to 7d", since.D()))
		case follow && (flags.Changed("tail") || flags.Changed("since")):
			return program.Exit(program.Usage, errors.New("--follow begins with the last 200 lines: leave out --tail and --since"))
		}
		return about(cmd, args)
	}
	return cmd
}

func printLines(out io.Writer, lines []jobapi.Line) error {
	for _, l := range lines {
		if _, err := fmt.Fprintf(out, "%s\n", oneLine(l.Text)); err != nil {
			return err
		}
	}
	return nil
}

func jobCancelCommand(d *jobClient) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use: "cancel ID", Short: "Stop a job; nothing of what it has done is undone", Args: cobra.ExactArgs(1),
		RunE: d.aboutJob("cancel", func(ctx context.Context, cmd *cobra.Command, j jobapi.Job) error {
			at, err := d.Cancel(ctx, d.scope, j.ID)
			if err == nil && at.IsZero() && wait {
				err = d.Follow(ctx, d.scope, j.ID, false, func(e apiclient.Event) error {
					if e.Job != nil {
						j = *e.Job
					}
					return nil
				})
				if err == nil && j.Status != jobs.Canceled {
					err = program.Exit(program.Failed, fmt.Errorf("job %s was faster: it is %s", j.ID, j.Status))
				}
			}
			if err != nil {
				return err
			}
			return printCanceled(cmd.OutOrStdout(), j.ID, at.IsZero() && !wait)
		}),
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "until a worker that runs it has stopped")
	return cmd
}

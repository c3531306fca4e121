package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
	apiclient "github.com/batchfleet/batchfleet/jobapi/client"
	"github.com/batchfleet/batchfleet/jobs"
)

func watchCommand(c *connection) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "watch JOB", Short: "Print every change of a job until it ends", Args: cobra.ExactArgs(1),
		Long: "Print every change of a job until it ends. The exit code is 1 unless the job succeeded. If it is still queued after 5 s,\n" +
			"and nothing runs such jobs, standard error says why, once.",
		Example: "  batchfleet watch 01KDZ3NDEKTSV4RRFFQ69G5FAV && echo done",
		RunE: c.ofJob(needRedis, "watch", func(ctx context.Context, cmd *cobra.Command, j jobapi.Job) error {
			var queued atomic.Bool
			queued.Store(j.Status == jobs.Queued)
			noted := c.noteQueued(ctx, cmd.ErrOrStderr(), j.Scope, knownKind(j), queued.Load)
			defer noted()
			_, err := c.watch(ctx, cmd.OutOrStdout(), j.Scope, j.ID, asJSON, func(j jobapi.Job) { queued.Store(j.Status == jobs.Queued) })
			return err
		}),
	}
	c.flags(cmd)
	c.scopeFlag(cmd)
	jsonFlag(cmd, &asJSON)
	cmd.ValidArgsFunction = c.completeJobs
	return cmd
}

// watch prints every change of a job until it ends, and returns it as it was then. The error
// has exit code 1 unless the job has succeeded. Each change is passed to seen, too.
func (c *connection) watch(ctx context.Context, out io.Writer, scope, id string, asJSON bool, seen func(jobapi.Job)) (jobapi.Job, error) {
	printed := ""
	last, err := c.follow(ctx, scope, id, func(j jobapi.Job) error {
		seen(j)
		if asJSON {
			return printJSON(out, j)
		}
		line := changeLine(j)
		if line == printed {
			return nil
		}
		printed = line
		_, err := fmt.Fprintf(out, "%s  %s\n", time.Now().UTC().Format(time.RFC3339), line)
		return err
	})
	if err == nil && last.ID == "" { // it had ended before the first event
		last, err = c.Get(ctx, scope, id)
	}
	switch {
	case err != nil && ctx.Err() != nil && c.local != nil && !keepers[scope]:
		note := "interrupted; the operation ran in this command, and is canceled"
		if last.Type == "system.drain" {
			note += "; workers still take no jobs: `batchfleet run start` lets them"
		}
		return last, program.Exit(program.Interrupted, errors.New(note))
	case err != nil:
		return last, interrupted(ctx, err, c.group, c.given(), id)
	}
	if !asJSON && last.Error != nil && printed == changeLine(last) { // why is said
		return last, program.Exit(program.Failed, fmt.Errorf("job %s %s", last.ID, last.Status))
	}
	return last, ended(last)
}

// follow passes each change of a job to seen until it ends, and returns it as it was then.
func (c *connection) follow(ctx context.Context, scope, id string, seen func(jobapi.Job) error) (last jobapi.Job, err error) {
	err = c.Follow(ctx, scope, id, false, func(e apiclient.Event) error {
		if e.Job == nil {
			return nil
		}
		last = *e.Job
		return seen(last)
	})
	return last, err
}

// changeLine says in a line how a job stands.
func changeLine(j jobapi.Job) string {
	p := j.Progress
	line := fmt.Sprintf("%-9s %d/%d", j.Status, p.Completed, p.Total)
	switch {
	case j.Silent > 0:
		line += "  " + workerOf(j.Worker, j.Silent)
	case j.Error != nil:
		line += "  " + reasonOf(j.Error)
	case p.Current >= 1 && p.Current <= len(j.Steps):
		s := j.Steps[p.Current-1]
		line += "  " + strings.TrimSuffix(s.Name+": "+s.Message, ": ")
	case j.Status == jobs.Queued && len(j.Steps) > 0 && j.Steps[0].Message != "":
		line += "  " + j.Steps[0].Message // why it waits
	}
	return oneLine(line)
}

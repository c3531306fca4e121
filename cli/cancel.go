package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/relay"
)

func cancelCommand(c *connection) *cobra.Command {
	var wait, asJSON bool
	cmd := &cobra.Command{
		Use: "cancel JOB…", Short: "Stop jobs: queued ones at once, running ones within seconds", Args: cobra.MinimumNArgs(1),
		Long: "Stop jobs: queued ones at once, running ones within seconds, those of a worker that was killed when another takes them\n" +
			"over. Nothing of what a job has done is undone.",
		Example: "  batchfleet cancel --wait 01KDZ3NDEKTSV4RRFFQ69G5FAV",
		RunE: c.ofJob(needRedis, "cancel", func(ctx context.Context, cmd *cobra.Command, j jobapi.Job) error {
			at, err := c.Cancel(ctx, j.Scope, j.ID)
			if err == nil && at.IsZero() && wait {
				j, err = c.follow(ctx, j.Scope, j.ID, func(jobapi.Job) error { return nil })
				if err == nil && j.Status != jobs.Canceled {
					err = program.Exit(program.Failed, fmt.Errorf("job %s was faster: it %s %s", j.ID, j.Status.Verb(), j.Status))
				}
			}
			if err != nil && at.IsZero() && wait && ctx.Err() != nil {
				err = program.Exit(program.Interrupted, fmt.Errorf("interrupted; the job has been asked to stop: `batchfleet %s%s%s` shows whether it has", showOf(c.group), oneLine(j.ID), c.given()))
			}
			if err != nil {
				return err
			}
			did, state := "is canceled", jobs.Canceled
			if at.IsZero() && !wait {
				did, state = "is running and has been asked to stop", jobs.Running
			}
			return printDone(cmd, asJSON, doneRow{j.ID, state}, did)
		}),
	}
	c.flags(cmd)
	c.scopeFlag(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "until a worker that runs it has stopped")
	jsonFlag(cmd, &asJSON)
	cmd.ValidArgsFunction = c.completeJobs
	return cmd
}

// doneRow is how it is printed as JSON that something was done to a job.
type doneRow struct {
	ID     string     `json:"jobId"`
	Status jobs.State `json:"status"`
}

func printDone(cmd *cobra.Command, asJSON bool, r doneRow, did string) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), r)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", oneLine(r.ID), did)
	return err
}

func retryCommand(c *connection) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "retry JOB…", Short: "Run failed jobs again", Args: cobra.MinimumNArgs(1),
		Long: "Run failed jobs again, from the beginning, under their ids and with the same input and parameters. To run many dead\n" +
			"letters again at a bearable pace there is `batchfleet dlq redrive`.",
		Example: "  batchfleet retry 01KDZ3NDEKTSV4RRFFQ69G5FAV",
		RunE: c.ofJob(needFleet, "retry", func(ctx context.Context, cmd *cobra.Command, j jobapi.Job) error {
			if !keepers[j.Scope] {
				return program.Exit(program.Usage, fmt.Errorf("job %s is an operation: start another with `batchfleet run %s`", j.ID, kindOf(j.Type)))
			}
			state, err := c.Retry(ctx, j.Scope, j.ID)
			if err != nil {
				return err
			}
			did := "is queued again"
			if j.Scope == relay.Scope {
				did = "is uploaded again"
			}
			return printDone(cmd, asJSON, doneRow{j.ID, state}, did)
		}),
	}
	c.flags(cmd)
	c.scopeFlag(cmd)
	jsonFlag(cmd, &asJSON)
	cmd.ValidArgsFunction = c.completeJobs
	return cmd
}

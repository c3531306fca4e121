package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/jobapi"
)

// gridJobsCommands are the common commands about jobs, for those of a leader on this machine.
func gridJobsCommands() []*cobra.Command {
	const job = "35918bc9-196d-40ea-9779-889d79b753f0"
	return []*cobra.Command{
		ofGrid(listCommand, "list", "List jobs, newest first", "  batchfleet grid list --state failed"),
		ofGrid(getCommand, "show JOB…", "Show how a job stands, why, and how it was tried", "  batchfleet grid show "+job),
		ofGrid(logsCommand, "logs JOB", "Print what the program of a job has written, and what its worker tells of it", "  batchfleet grid logs "+job),
		ofGrid(resultCommand, "result JOB", "Fetch the files that the program of a job has left, as archive.zip", "  batchfleet grid result -o results "+job),
		ofGrid(cancelCommand, "cancel JOB…", "Stop jobs: queued ones at once, running ones within seconds", "  batchfleet grid cancel "+job),
		ofGrid(retryCommand, "retry JOB…", "Queue dead letters again", "  batchfleet grid retry "+job),
		gridExplainCommand(),
	}
}

// ofGrid makes one of the commands about jobs a command about those of a leader.
func ofGrid(make func(*connection) *cobra.Command, use, short, example string) *cobra.Command {
	return ofScope(leader.Scope, gridDefaults, make, use, short, example)
}

func gridDefaults(cmd *cobra.Command) {
	api := cmd.Flags().Lookup("api")
	api.Usage, api.DefValue = "address of the Job API of the leader", "http://"+gridWeb
	_ = api.Value.Set(api.DefValue) // a string takes any
}

// gridExplainCommand says why a job stands as it does.
func gridExplainCommand() *cobra.Command {
	c := &connection{}
	cmd := &cobra.Command{
		Use: "explain JOB…", Short: "Say in a sentence why a job is not done yet, or how it ended", Args: cobra.MinimumNArgs(1),
		Example: "  batchfleet grid explain 35918bc9-196d-40ea-9779-889d79b753f0",
		RunE: c.ofJob(needRedis, "explain", func(_ context.Context, cmd *cobra.Command, j jobapi.Job) error {
			return explain(cmd.OutOrStdout(), &j)
		}),
	}
	c.flags(cmd)
	gridDefaults(cmd)
	c.scope, c.group, c.usual = leader.Scope, "grid ", []string{c.api}
	cmd.ValidArgsFunction = c.completeJobs
	return cmd
}

func explain(out io.Writer, j *jobapi.Job) error {
	var why []string
	for _, s := range j.Steps {
		if s.Message != "" && !slices.Contains(why, s.Message) {
			why = append(why, s.Message)
		}
	}
	_, err := fmt.Fprintf(out, "%s: %s\n", oneLine(j.ID), oneLine(strings.Join(why, "; ")))
	return err
}

// gridWorkersCommand lists the workers of a leader.
func gridWorkersCommand() *cobra.Command {
	c := &connection{}
	var asJSON bool
	cmd := &cobra.Command{
		Use: "workers", Short: "List the workers that are connected to a leader", Args: cobra.NoArgs, Example: "  batchfleet grid workers",
		RunE: c.connected(needRedis, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			all, err := c.WorkersOf(ctx, leader.Scope)
			if err != nil {
				return err
			}
			now := time.Now()
			return printRows(cmd.OutOrStdout(), asJSON, all, []any{"WORKER", "STATE", "JOBS", "SLOTS", "TAKES", "SINCE", "HOST"}, func(w jobapi.Worker) []any {
				return []any{w.ID, w.State, w.Jobs, number(w.Slots), strings.Join(w.Kinds, ","), age(now, w.Started), w.Host}
			})
		}),
	}
	c.flags(cmd)
	jsonFlag(cmd, &asJSON)
	gridDefaults(cmd)
	c.scope = leader.Scope
	return cmd
}

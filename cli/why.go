package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
)

// whyCommand says why a job does not run.
func whyCommand(c *connection) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "why JOB…", SuggestFor: []string{"explain"}, Short: "Say why a job does not run, or who runs it", Args: cobra.MinimumNArgs(1),
		Long: "Say why a job does not run, or who runs it, and what to do if something is wrong: it waits behind others, no live worker\n" +
			"runs its kind, workers are draining, its kind is paused, it is delayed, its worker is silent, its message is missing.",
		Example: "  batchfleet why 01KDZ3NDEKTSV4RRFFQ69G5FAV",
		RunE: c.ofJob(needRedis, "explain", func(ctx context.Context, cmd *cobra.Command, j jobapi.Job) error {
			why, err := c.Why(ctx, j.Scope, j.ID)
			if noRoute(err) {
				return program.Exit(program.Failed, fmt.Errorf("job %s: this server does not tell why jobs of %s wait; `batchfleet %sget %s%s` shows what is known", j.ID, j.Scope, c.group, oneLine(j.ID), c.given()))
			}
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), why)
			}
			for _, r := range why.Reasons {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s\n", oneLine(why.ID), why.Status, oneLine(r.Message)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.flags(cmd)
	c.scopeFlag(cmd)
	jsonFlag(cmd, &asJSON)
	cmd.ValidArgsFunction = c.completeJobs
	return cmd
}

// noRoute reports whether a server lacks a route, of things that are known to be there.
func noRoute(err error) bool {
	refused, ok := errors.AsType[*jobapi.Refusal](err)
	return ok && (refused.Status == http.StatusNotFound || refused.Status == http.StatusMethodNotAllowed)
}

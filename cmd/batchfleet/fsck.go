package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cmd/cli"
	"github.com/batchfleet/batchfleet/gateway/queue"
)

func fsckCommand() *cobra.Command {
	var repair, asJSON bool
	c := &cobra.Command{
		Use:   "fsck",
		Short: "Prove that every job of a gateway is in exactly one place, and repair what is not",
		Long: "Looks at all jobs in the Redis of REDIS_URL or REDIS_HOST, also while gateways run on it. Exits 0 if all\n" +
			"is well or was repaired, and 1 if not.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var env GatewayEnv
			if err := cli.ReadEnv(&env); err != nil {
				return err
			}
			return cli.Coded(cmd.Context(), fsck(cmd.Context(), &env, repair, asJSON, cmd.OutOrStdout()))
		},
	}
	c.Flags().BoolVar(&repair, "repair", false, "repair what is found; jobs are queued again rather than lost")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

func fsck(ctx context.Context, env *GatewayEnv, repair, asJSON bool, out io.Writer) error {
	rdb := env.openRedis(4)
	defer rdb.Close()
	r, err := queue.New(rdb, env.rules()).Fsck(ctx, repair)
	if err != nil {
		return err
	}
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false) // people read it
		err = enc.Encode(r)
	} else {
		err = printReport(out, r)
	}
	if err != nil {
		return err
	}
	if left := r.Left + r.Unchecked; left > 0 {
		what := "1 thing is wrong or was not looked at"
		if left > 1 {
			what = fmt.Sprintf("%d things are wrong or were not looked at", left)
		}
		return cli.Exit(cli.Failed, fmt.Errorf("%s; %s", what, advice(repair)))
	}
	return nil
}

func advice(repair bool) string {
	if repair {
		return "run it again, or look at what it could not repair"
	}
	return "--repair repairs what it can"
}

func printReport(out io.Writer, r queue.Report) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	// A tabwriter keeps its errors for Flush.
	for _, status := range slices.Sorted(maps.Keys(r.Jobs)) {
		_, _ = fmt.Fprintf(t, "%s\t%d\n", status, r.Jobs[status])
	}
	_, _ = fmt.Fprintf(t, "in the queue\t%d\nunder a lease\t%d\ndelayed\t%d\ndead letters\t%d\n", r.Queued, r.Leased, r.Delayed, r.Dead)
	for _, kind := range slices.Sorted(maps.Keys(r.Counts)) {
		_, _ = fmt.Fprintf(t, "FOUND: %s\t%d\n", kind, r.Counts[kind])
	}
	for _, f := range r.Findings {
		done := doneOf(f.Done, f.Harmless())
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.Job, f.Kind, f.Detail, done)
	}
	if r.Unchecked > 0 {
		_, _ = fmt.Fprintf(t, "not looked at\t%d\trun it again\n", r.Unchecked)
	}
	return t.Flush()
}

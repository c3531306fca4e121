package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
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
			if err := settings.Read(&env); err != nil {
				return err
			}
			return program.Coded(cmd.Context(), fsck(cmd.Context(), &env, repair, asJSON, cmd.OutOrStdout()))
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
	places := []place{{"in the queue", r.Queued}, {"under a lease", r.Leased}, {"delayed", r.Delayed}, {"dead letters", r.Dead}}
	err = printAudit(out, r.Audit, places, r, asJSON)
	if err != nil {
		return err
	}
	if left := r.Left + r.Unchecked; left > 0 {
		what := "1 thing is wrong or was not looked at"
		if left > 1 {
			what = fmt.Sprintf("%d things are wrong or were not looked at", left)
		}
		return program.Exit(program.Failed, fmt.Errorf("%s; %s", what, advice(repair)))
	}
	return nil
}

func advice(repair bool) string {
	if repair {
		return "run it again, or look at what it could not repair"
	}
	return "--repair repairs what it can"
}

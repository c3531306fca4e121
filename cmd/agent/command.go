package agent

import (
	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cmd/cli"
)

// Command is a program that is an agent of a gateway and nothing else.
func Command(name, version string) *cobra.Command {
	c := &cobra.Command{
		Use:           name,
		Short:         "Lease jobs from a gateway over HTTPS and run them, until SIGTERM",
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var env Env
			if err := cli.ReadEnv(&env); err != nil {
				return err
			}
			return cli.Coded(cmd.Context(), env.Run(cmd.Context(), version, OverHTTP(version)))
		},
	}
	c.AddCommand(RegisterCommand(version))
	return c
}

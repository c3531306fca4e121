package agent

import (
	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/settings"
)

// Settings says, for the help of a worker, what a gateway's worker is told and
// where.
const Settings = `Settings of a gateway's worker, from the environment or a file .env:
  SOURCE             the gateway's address, https://HOST
  WORKER_TOKEN_FILE  what register has written (worker.token)
  GATEWAY_CA_FILE    certificates to trust beside the system's
  AGENT_DIR          for leases in hand, checkpoints and results (./agent); one process each
  PROCESSOR          zpe, or mock, which finishes jobs with made-up results
  WORKER_SLOTS       jobs at once (1)
  DRAIN_TIMEOUT      what SIGTERM gives jobs to finish (8s)
  QE_PW, QE_PSEUDO_DIR, QE_MAX_MEMORY, QE_THREADS, ...  for pw.x
All of them are in docs/configuration.md.`

// Command is a program that is an agent of a gateway and nothing else.
func Command(name, version string) *cobra.Command {
	c := &cobra.Command{
		Use:           name,
		Short:         "Lease jobs from a gateway over HTTPS and run them, until SIGTERM",
		Long:          "Leases jobs from a gateway over HTTPS and runs them, until SIGTERM.\n\n" + Settings,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: settings.With(func(cmd *cobra.Command, env *Env, _ []string) error {
			return env.Run(cmd.Context(), version, OverHTTP(version))
		}),
	}
	c.AddCommand(RegisterCommand(version))
	return c
}

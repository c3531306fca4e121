package cli

import "github.com/spf13/cobra"

// oldJobCommand is `batchfleet job …`: the commands of the Job API as they were called before
// all jobs had one set of commands. It always asks a server, by default that of this machine,
// and goes with the next release.
func oldJobCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "job", Short: "The commands list, get, watch, logs, cancel and run, against a server", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, make := range []func(*connection) *cobra.Command{listCommand, getCommand, watchCommand, logsCommand, cancelCommand, runCommand} {
		c.AddCommand(make(&connection{old: true}))
	}
	return c
}

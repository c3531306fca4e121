package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// oldJobCommand is `batchfleet job …`: the commands of the Job API as they were called before
// all jobs had one set of commands. It always asks a server, by default that of this machine,
// and goes with the next release.
func oldJobCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "job", Short: "The commands list, get, watch, logs, cancel and run, against a server", Hidden: true, Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, make := range []func(*connection) *cobra.Command{listCommand, getCommand, watchCommand, logsCommand, cancelCommand, runCommand} {
		c.AddCommand(make(&connection{old: true}))
	}
	return c
}

// subcommand refuses an argument of a command that is only the parent of others,
// and says which of them may be meant.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("%.40q is no command of `%s`", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("%w: do you mean %s?", err, strings.Join(near, " or "))
	}
	return fmt.Errorf("%w; --help lists them", err)
}

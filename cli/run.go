// Package cli is the command batchfleet: one file for each subcommand, which reads
// its settings, opens what it needs, wires it together and waits.
package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/pubsub"
)

// Run executes one command line and returns its exit code. The version is that of
// the program, empty for a build from a checkout; built are kinds that it was built with.
func Run(args []string, programVersion string, built ...own.Kind) int {
	version, own.Built = programVersion, built
	return program.Run(rootCommand(), args, hint)
}

// hint says what to do about Pub/Sub, or points to the doctor where that looks at what the
// command needs: not at a server elsewhere, of which that has been said.
func hint(cmd *cobra.Command, err error) string {
	if api := cmd.Flags().Lookup("api"); api != nil {
		old := cmd.Parent() != nil && cmd.Parent().Name() == "job"
		if (&connection{api: api.Value.String(), old: old}).address() != "" {
			return ""
		}
	}
	if strings.Contains(err.Error(), pubsub.ErrUnreachable.Error()) { // an operation that has failed is but a text
		return (&PubSubEnv{Emulator: os.Getenv("PUBSUB_EMULATOR_HOST")}).unreachableHelp()
	}
	if cmd.HasParent() && cmd.Parent().Name() == "grid" {
		return "" // it has a doctor of its own
	}
	switch cmd.Name() {
	case "register", "gateway":
		return ""
	}
	return "`batchfleet doctor` looks for what is wrong and says what to do"
}

// The groups of the help.
const (
	groupJobs  = "jobs"
	groupFleet = "fleet"
	groupTools = "tools"
)

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "batchfleet",
		Short: "Run batch jobs on a fleet of workers",
		Long: "batchfleet runs batch jobs on a fleet of workers.\n\n" +
			"Commands about jobs act on what the environment names (REDIS_URL, GCP_PROJECT_ID, …; `batchfleet config` shows it), or,\n" +
			"with --api or BATCHFLEET_API, on what a server has.",
		Example: `  batchfleet dev FILE.pdf…            process documents now, with nothing installed
  batchfleet submit --wait FILE.pdf   give them to the fleet of the environment
  batchfleet list --state failed      see what went wrong`,
		// Without a template of its own: with text/template the linker keeps every method there
		// is, and the program is a third larger.
		Version:       strings.TrimSpace(strings.TrimPrefix(versionLine(), "batchfleet ")),
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		for _, note := range misspelt(os.Environ()) {
			fmt.Fprintln(cmd.ErrOrStderr(), "batchfleet:", note)
		}
	}
	root.AddGroup(
		&cobra.Group{ID: groupJobs, Title: "Jobs:"},
		&cobra.Group{ID: groupFleet, Title: "The fleet:"},
		&cobra.Group{ID: groupTools, Title: "Tools:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			completeNoFiles(c)
			root.AddCommand(c)
		}
	}
	on := func(make func(*connection) *cobra.Command) *cobra.Command { return make(&connection{}) }
	add(groupJobs, on(submitCommand), on(listCommand), on(getCommand), on(whyCommand), on(watchCommand), on(logsCommand), on(resultCommand), on(cancelCommand), on(retryCommand), dlqCommand())
	add(groupFleet, devCommand(), workerCommand(), gatewayCommand(), relayCommand(), gridCommand(), emulatorCommand(), on(dashboardCommand), on(overviewCommand), on(workersCommand), on(runCommand), fleetFsckCommand(), kindsCommand(), doctorCommand(), configCommand(), tokenCommand())
	add(groupTools, pdfCommand(), healthcheckCommand(), versionCommand())
	root.AddCommand(oldJobCommand())
	root.SetHelpCommandGroupID(groupTools)
	root.SetCompletionCommandGroupID(groupTools)
	return root
}

// Package cli is the command batchfleet: one file for each subcommand, which reads
// its settings, opens what it needs, wires it together and waits.
package cli

import (
	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
)

// Run executes one command line and returns its exit code. The version is that of
// the program, empty for a build from a checkout.
func Run(args []string, programVersion string) int {
	version = programVersion
	return program.Run(rootCommand(), args, hint)
}

// hint points to the doctor where that looks at what the command needs.
func hint(cmd *cobra.Command) string {
	if parent := cmd.Parent(); parent != nil && parent.Name() == "job" {
		return "" // it has said what to do
	}
	switch cmd.Name() {
	case "register", "gateway", "fsck":
		return ""
	}
	return "`batchfleet doctor` looks for what is wrong and says what to do"
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "batchfleet",
		Short:         "Run batch jobs on a fleet of workers",
		Long:          "batchfleet runs batch jobs on a fleet of workers.\n\nTry it with nothing installed:  batchfleet dev FILE.pdf…",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddCommand(
		devCommand(), workerCommand(), emulatorCommand(), gatewayCommand(),
		submitCommand(), statusCommand(), watchCommand(), cancelCommand(), logsCommand(), listCommand(), workersCommand(), fleetFsckCommand(), dlqCommand(), jobCommand(), tokenCommand(),
		pdfCommand(), doctorCommand(), healthcheckCommand(), versionCommand(),
	)
	return root
}

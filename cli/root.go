package cli

import (
	"github.com/spf13/cobra"
)

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

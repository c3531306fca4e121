package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
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
		devCommand(), workerCommand(), emulatorCommand(),
		submitCommand(), statusCommand(), watchCommand(), cancelCommand(), logsCommand(), listCommand(), dlqCommand(),
		pdfCommand(), doctorCommand(), healthcheckCommand(), versionCommand(),
	)
	return root
}

// coded gives an error of a command the exit code that says what kind it is.
func coded(ctx context.Context, err error) error {
	var has exitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &has):
		return err
	case ctx.Err() != nil:
		return exitError{exitInterrupted, errors.New("interrupted")}
	case errors.Is(err, jobs.ErrUnavailable), errors.Is(err, worker.ErrRefused):
		return exitError{exitUnavailable, err}
	default:
		return exitError{exitFailed, err}
	}
}

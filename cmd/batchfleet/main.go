// Command batchfleet runs batch jobs on a fleet of workers. See README.md.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cmd/cli"
	"github.com/batchfleet/batchfleet/processor"
)

func main() {
	// The reader of one document is this binary again. It starts before
	// anything of the fleet is set up, because it is started for every document.
	if len(os.Args) == 2 && os.Args[1] == pdfChild {
		// A service manager sends its signals to all processes. The worker
		// decides when a document is given up, and then kills its reader.
		signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		if err := processor.ServePDF(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(os.Args[1:]))
}

// pdfChild is the hidden argument that makes this binary a reader.
const pdfChild = "pdf-child"

// run executes one command line and returns its exit code.
func run(args []string) int {
	return cli.Run(rootCommand(), args, hint)
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

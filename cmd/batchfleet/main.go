// Command batchfleet runs batch jobs on a fleet of workers. See README.md.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cmd/cli"
)

func main() { os.Exit(run(os.Args[1:])) }

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

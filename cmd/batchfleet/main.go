// Command batchfleet runs batch jobs on a fleet of workers. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/joho/godotenv"

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

// run executes one command line and returns its exit code. The first SIGINT or
// SIGTERM asks the command to end, the second ends the process.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	if err := godotenv.Load(); err != nil && !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(os.Stderr, "batchfleet: read .env:", err)
		return exitUsage
	}
	root := rootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if coded := (exitError{}); errors.As(err, &coded) {
		if coded.err != nil {
			fmt.Fprintln(os.Stderr, "batchfleet:", coded.err)
		}
		if coded.code == exitUnavailable {
			fmt.Fprintln(os.Stderr, "batchfleet: `batchfleet doctor` looks for what is wrong and says what to do")
		}
		return coded.code
	}
	fmt.Fprintln(os.Stderr, "batchfleet:", err)
	return exitUsage
}

// The exit codes, as README.md lists them.
const (
	exitFailed      = 1 // a job failed, or a check found something wrong
	exitUsage       = 2 // wrong arguments or configuration
	exitUnavailable = 3 // Pub/Sub, Redis or the storage could not be reached
	exitInterrupted = 130
)

// exitError carries an exit code; err may be nil when all has been said.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// Package pdfchild makes a program that imports it a reader of documents when it
// is started with [Argument] alone: before main, and before most other packages
// are initialised. Those of gRPC, Cloud Storage and Redis take longer than
// reading a page.
//
// Of packages that have all they import, Go initialises the one whose path comes
// first (The Go Programming Language Specification, Program initialization). This
// one imports little, so it comes before those that import much.
package pdfchild

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/batchfleet/batchfleet/processor"
)

// Argument is the hidden argument that makes the program a reader.
const Argument = "pdf-child"

func init() {
	if len(os.Args) != 2 || os.Args[1] != Argument {
		return
	}
	// A service manager sends its signals to all processes. The worker decides
	// when a document is given up, and then kills its reader.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if err := processor.ServePDF(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

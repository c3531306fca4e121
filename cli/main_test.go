package cli

import (
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary stand in for the real one: as a child that
// reads a document, and as the command of scripts and of real processes.
func TestMain(m *testing.M) {
	if os.Getenv(asBatchfleet) != "" {
		os.Exit(Run(os.Args[1:], ""))
	}
	// Most of these tests wait for leases of at least 10 s to end, and need no
	// CPU meanwhile. A value on the command line goes before this one.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"batchfleet": func() { os.Exit(Run(os.Args[1:], "")) }})
}

package cli

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// TestMain lets the test binary stand in for the real one: as a child that
// reads a document, and as the command of scripts and of real processes.
func TestMain(m *testing.M) {
	if part := os.Getenv(asGridPart); part != "" {
		os.Exit(runGridPart(part))
	}
	if os.Getenv(asBatchfleet) != "" {
		var built []own.Kind
		if os.Getenv(withBlob) != "" {
			built = append(built, blobKind())
		}
		os.Exit(Run(os.Args[1:], "", built...))
	}
	// Most of these tests wait for leases of at least 10 s to end, and need no
	// CPU meanwhile.
	if testrun.Race {
		testrun.Parallel(24)
	} else {
		testrun.Parallel(32)
	}
	testscript.Main(m, map[string]func(){"batchfleet": func() { os.Exit(Run(os.Args[1:], "")) }})
}

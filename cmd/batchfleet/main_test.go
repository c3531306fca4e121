package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary stand in for the real one: as a child that
// reads a document, and as the command of scripts and of real processes.
func TestMain(m *testing.M) {
	if os.Getenv(asBatchfleet) != "" || len(os.Args) == 2 && os.Args[1] == pdfChild {
		main()
		os.Exit(0)
	}
	testscript.Main(m, map[string]func(){"batchfleet": main})
}

// asBatchfleet is the environment variable that makes a process of the test
// binary run as batchfleet.
const asBatchfleet = "BATCHFLEET_TEST_MAIN"

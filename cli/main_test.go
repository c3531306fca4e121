package cli

import (
	"flag"
	"os"
	"os/exec"
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

// asBatchfleet is the environment variable that makes a process of the test
// binary run as batchfleet.
const asBatchfleet = "BATCHFLEET_TEST_MAIN"

// batchfleet returns a process of batchfleet, not yet started, with that
// environment alone and in a directory of its own. It is killed when the test
// ends.
func batchfleet(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env, cmd.Dir = append([]string{asBatchfleet + "=1"}, env...), t.TempDir()
	return cmd
}

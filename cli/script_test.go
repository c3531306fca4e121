package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// TestScripts runs the command as people type it; see testdata/script.
func TestScripts(t *testing.T) {
	t.Parallel() // some wait for limits, while other tests use the CPU
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Condition: func(name string) (bool, error) {
			switch name {
			case "ci":
				return os.Getenv("CI") != "", nil
			case "race":
				return testrun.Race, nil
			}
			return false, fmt.Errorf("unknown condition %s", name)
		},
		Setup: func(e *testscript.Env) error {
			fixtures, err := filepath.Abs("../pdf/testdata")
			if err != nil {
				return err
			}
			e.Setenv("FIXTURES", fixtures)
			// The directory with the command alone: a machine with nothing installed.
			bin, _, _ := strings.Cut(e.Getenv("PATH"), string(os.PathListSeparator))
			e.Setenv("BIN", bin)
			e.Setenv("GORACE", raceOptions)
			return nil
		},
	})
}

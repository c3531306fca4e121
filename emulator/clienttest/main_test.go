package clienttest

import (
	"os"
	"testing"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// scratch is a directory for what the tests build.
var scratch string

func TestMain(m *testing.M) {
	// Most of these tests wait for leases of at least 10 s to end, and need no
	// CPU meanwhile.
	testrun.Parallel(12)
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "clienttest")
	if err != nil {
		panic(err)
	}
	scratch = dir
	defer func() { _ = os.RemoveAll(dir) }()
	return m.Run()
}

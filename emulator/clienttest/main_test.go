package clienttest

import (
	"flag"
	"os"
	"testing"
)

// scratch is a directory for what the tests build.
var scratch string

func TestMain(m *testing.M) {
	// Most of these tests wait for leases of at least 10 s to end, and need no
	// CPU meanwhile. A value on the command line goes before this one.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
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

package clienttest

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	// Most of these tests wait for leases of at least 10 s to end, and need no
	// CPU meanwhile. A value on the command line goes before this one.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

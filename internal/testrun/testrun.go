// Package testrun says how tests are run: how many of a package at the same
// time, where they write, how often their garbage is collected, and which are left out of a short run and of one with the race detector.
package testrun

import (
	"flag"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
)

// Parallel lets n parallel tests of a package run at the same time, however few
// CPUs there are: it is for packages whose tests mostly wait. It is called in
// TestMain; -parallel on the command line goes before it.
func Parallel(n int) {
	// The command line is read later, by testing.M.Run.
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// CollectSeldom makes the garbage collector wait longer: it is for packages whose tests
// allocate much and keep little. It is called in TestMain; GOGC goes before it.
func CollectSeldom() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// MemoryDir returns a temporary directory in memory where there is one, for tests of what waits
// for each of its files to be on disk.
func MemoryDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "batchfleet-test-") //nolint:usetesting // TempDir is on the disk
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Long leaves a test out of a short run: one of processes, or one that takes long.
func Long(tb testing.TB, why string) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("not in a short run:", why)
	}
}

// Once leaves a test out of a run with the race detector, where it would show
// nothing that the run without does not show as well.
func Once(tb testing.TB, why string) {
	tb.Helper()
	if Race {
		tb.Skip("not with the race detector:", why)
	}
}

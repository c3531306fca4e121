//go:build unix

package relay

import (
	"syscall"
	"testing"
)

// fifo makes a pipe that never has a writer.
func fifo(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

//go:build unix

package exec

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// signalName returns the name of a signal, such as SIGKILL.
func signalName(s syscall.Signal) string { return unix.SignalName(s) }

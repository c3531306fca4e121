//go:build !unix

package exec

import "syscall"

func signalName(s syscall.Signal) string { return s.String() }

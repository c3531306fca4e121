//go:build !linux

package command

import (
	"os"
	"syscall"
)

func sysProcAttr() *syscall.SysProcAttr { return nil }

func limit(int, Limits) error { return nil }

// waitExit waits until p has exited and reaps it: without groups there is
// nothing to do in between.
func waitExit(p *os.Process) (*os.ProcessState, error) { return p.Wait() }

func signalGroup(p *os.Process, s syscall.Signal) { _ = p.Signal(s) }

func awaitGroup(int) {}

func maxMemory(*os.ProcessState) int64 { return 0 }

//go:build !linux

package command

import (
	"os"
	"syscall"
	"time"
)

func sysProcAttr() *syscall.SysProcAttr { return nil }

func limit(int, Limits) error { return nil }

// waitExit waits until p has exited and reaps it: without groups there is
// nothing to do in between.
func waitExit(p *os.Process) (*os.ProcessState, error) { return p.Wait() }

func signalGroup(p *os.Process, s syscall.Signal) { _ = p.Signal(s) }

func awaitGroup(int) {}

func mark() string { return "" }

func sweepRun(string) {}

// Sweep does nothing: what is left of runs is found on Linux only.
func Sweep() (killed int) { return 0 }

func maxMemory(*os.ProcessState) int64 { return 0 }

func spent(int) (cpu time.Duration, memory int64, err error) { return 0, 0, nil }

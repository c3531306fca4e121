//go:build !linux

package command

import (
	"os"
	"syscall"
	"time"
)

func sysProcAttr() *syscall.SysProcAttr { return nil }

func newPipe(int) (read, write *os.File, err error) { return os.Pipe() }

func limit(int, Limits) error { return nil }

func startHeld(path string, argv []string, attr *os.ProcAttr) (p *os.Process, held bool, err error) {
	p, err = os.StartProcess(path, argv, attr)
	return p, false, err
}

func awaitHeld(*os.Process) {}

func letGo(*os.Process) {}

// waitExit waits until p has exited and reaps it: without groups there is
// nothing to do in between.
func waitExit(p *os.Process) (*os.ProcessState, error) { return p.Wait() }

func signalGroup(p *os.Process, s syscall.Signal) { _ = p.Signal(s) }

func awaitGroup(int) {}

func startTime(int) (uint64, error) { return 0, nil }

// descendants finds nothing: there is no way to.
type descendants struct{ marker string }

func newDescendants(Limits, *Cgroups) descendants { return descendants{} }

// cgroup is nothing: there are cgroups on Linux only.
type cgroup struct{ dir string }

func (cgroup) rmdir() error { return nil }

func (descendants) start(_ *syscall.SysProcAttr, startProcess func() error) error {
	return startProcess()
}

func (descendants) kill(int, time.Duration) {}

func (descendants) controlled() bool { return false }

func (descendants) oomKilled() bool { return false }

func (descendants) count(int) (n int, refused bool) { return 0, false }

// ControlCgroup returns false: there are cgroups on Linux only.
func ControlCgroup() bool { return false }

// Sweep does nothing: what is left of runs is found on Linux only.
func Sweep(...Process) (killed int) { return 0 }

func maxMemory(*os.ProcessState) int64 { return 0 }

func processUsage(int) (cpu time.Duration, memory int64, err error) { return 0, 0, nil }

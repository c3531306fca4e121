package command

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"
)

// WithoutCgroups makes Run use markers only, until restore is called.
func WithoutCgroups() (restore func()) {
	was := ownCgroup
	ownCgroup = func() string { return "" }
	return func() { ownCgroup = was }
}

// OwnCgroup returns the directory in which runs have their cgroups; empty if there
// can be none.
func OwnCgroup() string { return ownCgroup() }

// StartTime returns Process.Start of a process.
func StartTime(pid int) (uint64, error) { return startTime(pid) }

// DiskCheck returns the check of a run of c that has just begun.
func DiskCheck(c *Command) func() error { return (&run{Command: c}).measureDisk() }

// CheckFor makes checks for a while.
func CheckFor(d, every time.Duration, check func() error) {
	ctx, stop := context.WithTimeout(context.Background(), d)
	defer stop()
	r := &run{exited: make(chan struct{}), stopping: ctx}
	r.check(every, check)
}

// StartedAfter reports whether a process may have been started after another one.
func StartedAfter(id, other, last int) bool { return startedAfter(id, other, last) }

// LastPID returns the id of the process that was started last.
func LastPID() int { return lastPID() }

// CanHold reports whether processes can be held before their first instruction.
func CanHold(t *testing.T) bool {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, held, err := startHeld("/bin/true", []string{"true"}, &os.ProcAttr{Sys: sysProcAttr()})
	if err != nil {
		t.Fatal(err)
	}
	if held {
		awaitHeld(p)
		letGo(p)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	return held
}

// Listed reports whether all processes are listed to find those after one.
func Listed(after, last int) bool {
	_, listed := pidRange{after, last}.names()
	return listed
}

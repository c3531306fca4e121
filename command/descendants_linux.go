package command

import (
	"bytes"
	"iter"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// descendants is how what a run leaves behind outside its process group is found.
// The zero value finds nothing.
type descendants struct {
	marker string // value of Marker
	cgroup cgroup // without a directory where there can be none: then the marker has to do
	idle   *Cgroups
}

func newDescendants(l Limits, idle *Cgroups) descendants {
	marker := newMarker()
	return descendants{marker, newCgroup(marker, l, idle), idle}
}

// controlled reports whether the cgroup has the limits of the run.
func (d *descendants) controlled() bool { return d.cgroup.limited }

// oomKilled reports whether the kernel has killed the run because it had too much memory.
func (d *descendants) oomKilled() bool {
	return d.controlled() && d.cgroup.event("memory.events", "oom") > 0 && d.cgroup.event("memory.events", "oom_kill") > 0
}

// count returns how many processes and threads there are; refused says that there would be more,
// had the kernel not refused to make them. pid is the process that Run has started.
func (d *descendants) count(pid int) (n int, refused bool) {
	switch {
	case d.controlled():
		return 0, d.cgroup.event("pids.events", "max") > 0
	case d.cgroup.dir != "":
		return d.cgroup.threads(), false
	case d.marker != "":
		return countMarked(d.marker, pid), false
	}
	return 0, false
}

// start calls startProcess with a process that starts in the cgroup, or outside
// where the kernel does not allow that.
func (d *descendants) start(attr *syscall.SysProcAttr, startProcess func() error) error {
	if d.cgroup.dir != "" {
		dir, err := unix.Open(d.cgroup.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			defer func() { _ = unix.Close(dir) }() // never fails
			attr.UseCgroupFD, attr.CgroupFD = true, dir
			if err := startProcess(); err == nil {
				return nil
			}
		}
		attr.UseCgroupFD = false
		_ = d.cgroup.rmdir() // it is empty
		d.cgroup = cgroup{}
	}
	return startProcess()
}

// quick is how long a run takes during which the kernel cannot have used all process ids, and so
// begun again with the lowest: 32768 or more.
const quick = 200 * time.Millisecond

// kill kills what is left when the process and its group are gone. ran is for how long there
// can have been descendants.
func (d *descendants) kill(pid int, ran time.Duration) {
	switch {
	case d.cgroup.dir != "" && !d.cgroup.limited && d.idle != nil && d.cgroup.isEmpty() && d.idle.add(d.cgroup):
	case d.cgroup.dir != "":
		d.cgroup.kill()
	case d.marker != "":
		among := everyProcess
		if last := lastPID(); ran < quick && last > 0 {
			if last == pid {
				return // no process was started since
			}
			among = pidRange{pid, last}
		}
		sweepMarked(func(marker string) bool { return marker == d.marker }, among)
	}
}

// pidRange is the processes that may have been started after one, up to the latest, whose id is last; 0 for whichever
// is the latest then.
type pidRange struct{ after, last int }

// everyProcess is all processes.
var everyProcess pidRange

// maxProbed is how many ids are tried one by one. To list all processes takes longer even where there are only a hundred.
const maxProbed = 64

// names yields the ids of the processes, but not this one, as names in /proc. If they are not listed, some are of threads,
// or of none.
func (r pidRange) names() (names iter.Seq[string], listed bool) {
	last := r.last
	if last == 0 {
		last = lastPID()
	}
	if r == everyProcess || last < r.after || last-r.after > maxProbed {
		return func(yield func(string) bool) {
			for name := range processes() {
				if pid, err := strconv.Atoi(name); err == nil && (r == everyProcess || startedAfter(pid, r.after, r.last)) && !yield(name) {
					return
				}
			}
		}, true
	}
	return func(yield func(string) bool) {
		self := os.Getpid()
		for pid := r.after + 1; pid <= last; pid++ {
			if pid != self && !yield(strconv.Itoa(pid)) {
				return
			}
		}
	}, false
}

// startedAfter reports whether the process with an id may have been started after another one. The ids grow,
// until the highest was used: last is that of the latest process.
func startedAfter(id, other, last int) bool {
	if last < other {
		return id > other || id <= last
	}
	return id > other && id <= last
}

// lastPID returns the id of the process or thread that was started last, 0 if it is not known.
func lastPID() int {
	buf := make([]byte, 128)
	fields := bytes.Fields(readFile("/proc/loadavg", buf[:0]))
	if len(fields) == 0 {
		return 0
	}
	last, _ := strconv.Atoi(string(fields[len(fields)-1])) // 0 if it is none
	return last
}

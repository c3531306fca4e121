package command

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// descendants is how what a run leaves behind outside its process group is found.
// The zero value finds nothing.
type descendants struct {
	marker string // value of Marker
	cgroup cgroup // empty where there can be none: then the marker has to do
}

func newDescendants() descendants {
	marker := newMarker()
	return descendants{marker, newCgroup(marker)}
}

// start calls startProcess with a process that starts in the cgroup, or outside
// where the kernel does not allow that.
func (d *descendants) start(attr *syscall.SysProcAttr, startProcess func() error) error {
	if d.cgroup != "" {
		dir, err := unix.Open(string(d.cgroup), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			defer func() { _ = unix.Close(dir) }() // never fails
			attr.UseCgroupFD, attr.CgroupFD = true, dir
			if err := startProcess(); err == nil {
				return nil
			}
		}
		attr.UseCgroupFD = false
		_ = d.cgroup.rmdir() // it is empty
		d.cgroup = ""
	}
	return startProcess()
}

// kill kills what is left when the process and its group are gone.
func (d *descendants) kill() {
	switch {
	case d.cgroup != "":
		d.cgroup.kill()
	case d.marker != "":
		sweepMarked(func(marker string) bool { return marker == d.marker })
	}
}

package command

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// startHeld starts a process and reports whether it is held before its first instruction. The caller must then call
// letGo, on the same thread. While it is held its limits are put in force, before it can start others without
// limits. The kernel holds it for a tracer. Where tracing is not allowed, as under a strict seccomp profile or
// Yama, and for a program whose file gives it rights, which tracing would take away, it runs at once.
func startHeld(path string, argv []string, attr *os.ProcAttr) (p *os.Process, held bool, err error) {
	if !givesRights(path) {
		attr.Sys.Ptrace = true
		p, err = os.StartProcess(path, argv, attr)
		attr.Sys.Ptrace = false
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOSYS) {
			return p, err == nil, err
		}
	}
	p, err = os.StartProcess(path, argv, attr)
	return p, false, err
}

// givesRights reports whether a process that executes the file gets further rights: setuid, setgid or capabilities.
func givesRights(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false // the start fails with the same error
	}
	_, err = unix.Getxattr(path, "security.capability", nil)
	return info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 || err == nil
}

// awaitHeld waits until a process that startHeld has started is held, or has been killed.
func awaitHeld(p *os.Process) {
	for errors.Is(unix.Waitid(unix.P_PID, p.Pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

// letGo lets a held process run. An error means that it is dead.
func letGo(p *os.Process) { _ = syscall.PtraceDetach(p.Pid) }

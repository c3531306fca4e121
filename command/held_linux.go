package command

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// startHeld starts a process that stands still before its first instruction, and reports whether it does: letGo
// is to be called for one that does, on the same thread. So its limits are in force before it can start others,
// which would have none. The kernel holds it for a tracer. Where none is allowed, as a strict seccomp profile or
// Yama may have it, or the program would not get rights that its file gives it, it runs at once.
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

// givesRights reports whether who executes a file gets other rights.
func givesRights(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false // which is said when it is started
	}
	_, err = unix.Getxattr(path, "security.capability", nil)
	return info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 || err == nil
}

// awaitHeld waits until a process that startHeld has started stands still, or has been killed.
func awaitHeld(p *os.Process) {
	for errors.Is(unix.Waitid(unix.P_PID, p.Pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

// letGo has a process run that stands still. An error means that it is dead.
func letGo(p *os.Process) { _ = syscall.PtraceDetach(p.Pid) }

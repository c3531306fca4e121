package command

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sysProcAttr puts the process into a group of its own and has the kernel kill
// it when the thread that started it ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// newPipe returns the ends of a pipe. That of this process, reading or writing, has deadlines; that of the run's
// process blocks, and is not in the runtime's poller: [os.Pipe] makes ten more system calls for that.
func newPipe(ours int) (read, write *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	_ = unix.SetNonblock(p[ours], true)                                          // cannot fail: the file is there
	return os.NewFile(uintptr(p[0]), "|0"), os.NewFile(uintptr(p[1]), "|1"), nil //nolint:gosec // not negative
}

// limit puts the limits in force on a process that runs already. Hard limits
// that are lower stay as they are.
func limit(pid int, l Limits) error {
	for _, lim := range []struct {
		name     string
		resource int
		value    int64
	}{
		{"memory", unix.RLIMIT_DATA, l.Memory},
		// Soft and hard are the same, so the kernel kills at once, without a
		// SIGXCPU that the process could handle.
		{"cpu", unix.RLIMIT_CPU, int64(l.cpuSeconds() / time.Second)},
		{"file size", unix.RLIMIT_FSIZE, l.FileBytes},
		{"open files", unix.RLIMIT_NOFILE, int64(l.OpenFiles)},
		{"core size", unix.RLIMIT_CORE, 0}, // a core would hold the document, and fill the disk
	} {
		if lim.value <= 0 && lim.resource != unix.RLIMIT_CORE {
			continue
		}
		if err := prlimit(pid, lim.resource, uint64(lim.value)); err != nil { //nolint:gosec // not negative
			return fmt.Errorf("set limit of %s: %w", lim.name, err)
		}
	}
	if err := standBack(pid, l.Nice); err != nil {
		return err
	}
	// When memory runs out, the kernel should kill the process and not the worker.
	// This may be forbidden, and is not worth failing for.
	_ = writeFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", "1000")
	return nil
}

// writeFile writes to a file that is there. It takes half as long as [os.WriteFile].
func writeFile(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(text))
	_ = unix.Close(fd) // in /proc it has no more to say
	return err
}

func prlimit(pid, resource int, value uint64) error {
	var old unix.Rlimit
	err := unix.Prlimit(pid, resource, nil, &old)
	if err == nil {
		value = min(value, old.Max)
		err = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: value, Max: value}, nil)
	}
	if errors.Is(err, unix.ESRCH) { // exited already
		return nil
	}
	return err
}

// waitExit waits until p has exited and leaves it a zombie, so that its id, which
// is that of its group, cannot become another's. So there is no state yet.
func waitExit(p *os.Process) (*os.ProcessState, error) {
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return nil, err
		}
	}
}

// signalGroup sends a signal to all of p's group. An error is ignored: the group is
// gone, or the kernel does not allow the signal.
func signalGroup(p *os.Process, s syscall.Signal) { _ = unix.Kill(-p.Pid, s) }

// awaitGroup waits until the group, which has been killed, is gone: its members
// may still be dying. Where the caller is process 1, as in a container, those
// left by their parents are the caller's to reap. Where another process 1 does not reap
// them, they stay as zombies, which is as good as gone.
func awaitGroup(id int) {
	calls := 0
	until(exitWait, func() bool {
		for {
			if pid, err := unix.Wait4(-id, nil, unix.WNOHANG, nil); pid <= 0 && !errors.Is(err, unix.EINTR) {
				break
			}
		}
		calls++
		return errors.Is(unix.Kill(-id, 0), unix.ESRCH) || calls%16 == 0 && onlyZombies(id)
	})
}

// onlyZombies reports whether all processes of a group are dead and wait to be reaped.
func onlyZombies(group int) bool {
	id := strconv.Itoa(group)
	for name := range processes() {
		if fields, err := statFields(name); err == nil && fields[2] == id && fields[0] != "Z" && fields[0] != "X" {
			return false
		}
	}
	return true
}

// until calls gone every millisecond until it returns true, or patience was over
// before the call.
func until(patience time.Duration, gone func() bool) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for began := time.Now(); ; {
		late := time.Since(began) > patience
		if gone() || late {
			return
		}
		pause.Reset(time.Millisecond)
		<-pause.C
	}
}

// maxMemory returns the largest resident set in bytes.
func maxMemory(s *os.ProcessState) int64 {
	if usage, ok := s.SysUsage().(*syscall.Rusage); ok {
		return usage.Maxrss << 10
	}
	return 0
}

// processUsage returns what a process has used so far: the CPU time of all its
// threads, and its resident set in bytes.
func processUsage(pid int) (cpu time.Duration, memory int64, err error) {
	var t unix.Timespec
	// The clock of a process: its id, inverted, and CPUCLOCK_SCHED in the last
	// bits (clock_getcpuclockid(3)).
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil { //nolint:gosec // ids have 22 bits
		return 0, 0, fmt.Errorf("read processor time: %w", err)
	}
	sizes, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, 0, fmt.Errorf("read memory: %w", err)
	}
	var size, resident int64 // pages
	if _, err := fmt.Sscan(string(sizes), &size, &resident); err != nil {
		return 0, 0, fmt.Errorf("read memory: %w", err)
	}
	return time.Duration(t.Nano()), resident * int64(os.Getpagesize()), nil
}

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// runner is this process as markers name it: its namespace of process ids, its id,
// and when it started, since ids are used again. It is empty without /proc.
var runner = sync.OnceValue(func() string {
	space, err := os.Readlink("/proc/self/ns/pid")
	began, err2 := startOf(os.Getpid())
	if err != nil || err2 != nil {
		return ""
	}
	return fmt.Sprintf("%s.%d.%s", space, os.Getpid(), began)
})

// mark returns the entry of the environment by which whatever comes of a run is
// found; empty where it could not be.
func mark() string {
	if runner() == "" {
		return ""
	}
	// Nobody gains by guessing it. crypto/rand would have math/big initialised,
	// which cmd/pdfquick does not wait for.
	return Marker + "=" + runner() + "." + strconv.FormatUint(rand.Uint64(), 36) //nolint:gosec // see above
}

// startOf returns when a process has started, in ticks since the machine has.
func startOf(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The name, in parentheses, may hold anything; see proc_pid_stat(5).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields[19], nil
}

// sweepRun kills what a run has left behind outside its group.
func sweepRun(mark string) {
	if mark != "" {
		sweep(func(entry string) bool { return entry == mark })
	}
}

// Sweep kills what is left of the runs of processes that do not live any more,
// which had no time to do so, and returns how many processes that were. It is for
// the start of a process that calls [Command.Run]: a kernel kills the executables
// themselves when their caller is killed, but not their children.
func Sweep() (killed int) { return sweep(orphaned) }

// orphaned reports whether an entry is the marker of a run whose caller is dead.
func orphaned(entry string) bool {
	value, ok := strings.CutPrefix(entry, Marker+"=")
	part := strings.Split(value, ".")
	space, _, _ := strings.Cut(runner(), ".")
	if !ok || len(part) != 4 || space == "" || part[0] != space {
		return false // in another namespace its id means another process
	}
	pid, err := strconv.Atoi(part[1])
	if err != nil {
		return false
	}
	began, err := startOf(pid)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return true
	}
	return err == nil && began != part[2]
}

// sweep kills the processes that have an entry in their environment that picked
// picks, until none is found or patience is over, and returns how many.
func sweep(picked func(entry string) bool) int {
	killed := map[int]bool{}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for began := time.Now(); time.Since(began) < patience; {
		found := killAll(picked)
		for _, pid := range found {
			killed[pid] = true
		}
		if len(found) == 0 {
			break
		}
		pause.Reset(time.Millisecond)
		<-pause.C
	}
	if os.Getpid() == 1 { // to whom the kernel gives those whose parents are dead
		for pid := range killed {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
	return len(killed)
}

// killAll kills those that are there now and returns their ids.
func killAll(picked func(entry string) bool) (found []int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = proc.Close() }() // it was only read
	names, _ := proc.Readdirnames(-1)   // those it has returned are there
	self, env := strconv.Itoa(os.Getpid()), make([]byte, 0, 64<<10)
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' || name == self || !hasEntry(environ(name, env), picked) {
			continue
		}
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		// Holds on to the process, so that no other is killed that has got its id.
		p, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if hasEntry(environ(name, env), picked) && p.Kill() == nil {
			found = append(found, pid)
		}
		_ = p.Release()
	}
	return found
}

// environ reads the environment of a process into buf; that of one that is dying,
// or another user's, is not to be seen. It is asked of every process of the machine,
// after every run: [os.ReadFile] takes twice as long.
func environ(pid string, buf []byte) []byte {
	fd, err := unix.Open("/proc/"+pid+"/environ", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }() // it was only read
	for {
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		if n <= 0 || err != nil {
			return buf
		}
		buf = slices.Grow(buf[:len(buf)+n], 4096)
	}
}

func hasEntry(env []byte, picked func(entry string) bool) bool {
	if !bytes.Contains(env, []byte(Marker)) {
		return false
	}
	for entry := range strings.SplitSeq(string(env), "\x00") {
		if picked(entry) {
			return true
		}
	}
	return false
}

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
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

// callerID is this process as markers name it: its namespace of process ids, its
// id, and when it started, since ids are used again. It is empty without /proc.
var callerID = sync.OnceValue(func() string {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	start, err2 := startTime(os.Getpid())
	if err != nil || err2 != nil {
		return ""
	}
	return fmt.Sprintf("%s.%d.%d", namespace, os.Getpid(), start)
})

// newMarker returns a value of Marker for a run; empty where it could not be found.
func newMarker() string {
	if callerID() == "" {
		return ""
	}
	// It is no secret. crypto/rand would initialise math/big, for which cli/pdfquick
	// has no time.
	return callerID() + "." + strconv.FormatUint(rand.Uint64(), 36) //nolint:gosec // see above
}

// callerIsDead reports whether a value of Marker is of a run whose caller is dead.
func callerIsDead(marker string) bool {
	part := strings.Split(marker, ".")
	namespace, _, _ := strings.Cut(callerID(), ".")
	if len(part) != 4 || namespace == "" || part[0] != namespace {
		return false // in another namespace its id means another process
	}
	pid, err := strconv.Atoi(part[1])
	if err != nil {
		return false
	}
	start, err := startTime(pid)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return true
	}
	return err == nil && strconv.FormatUint(start, 10) != part[2]
}

// startTime returns when a process started, in clock ticks since the machine booted.
func startTime(pid int) (uint64, error) {
	fields, err := statFields(strconv.Itoa(pid))
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// statFields returns the fields of /proc/PID/stat from the third on, at least 20.
func statFields(pid string) ([]string, error) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil, err
	}
	// The name, in parentheses, may hold anything; see proc_pid_stat(5).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return nil, fmt.Errorf("/proc/%s/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

// Sweep kills what is left of the runs of callers that are dead, and what is left
// of earlier: processes that their owner has stored and whose runs are over. It
// returns how many processes it has killed.
//
// It is for the start of a process that calls [Command.Run]: the kernel kills the
// executables themselves when their caller is killed, but not their children. Those
// are found by their cgroup or by [Marker] in their environment. A process of
// earlier is also found by its id and start time, and killed with its group.
func Sweep(earlier ...Process) (killed int) {
	markers, found := map[string]bool{}, map[int]bool{}
	for _, p := range earlier {
		if p.Marker != "" {
			markers[p.Marker] = true
		}
		if p.kill() {
			found[p.PID] = true
		}
	}
	match := func(marker string) bool { return markers[marker] || callerIsDead(marker) }
	for _, pid := range sweepCgroups(match) {
		found[pid] = true
	}
	maps.Copy(found, sweepMarked(match, everyProcess))
	return len(found)
}

// kill kills the process and the group it leads, if it is still the one that was
// started.
func (p Process) kill() bool {
	if p.PID <= 1 || p.PID == os.Getpid() {
		return false
	}
	// Holds on to the process, so that no other is killed that has got its id.
	proc, err := os.FindProcess(p.PID)
	if err != nil {
		return false
	}
	defer func() { _ = proc.Release() }() // never fails
	if start, err := startTime(p.PID); err != nil || start != p.Start {
		return false
	}
	signalGroup(proc, syscall.SIGKILL)
	err = proc.Kill()
	return err == nil || errors.Is(err, os.ErrProcessDone) // it was of its group
}

// sweepWait is for the processes of a run to be gone once they are killed. It is long where there
// are thousands of them; if one cannot be killed yet, because the kernel is busy with it, it is left.
const sweepWait = 10 * time.Second

// sweepMarked kills the processes of those among which it looks with a value of Marker that matches, until none
// is found or sweepWait is over, and returns their ids.
func sweepMarked(match func(marker string) bool, among pidRange) map[int]bool {
	killed := map[int]bool{}
	passes := 0
	until(sweepWait, func() bool {
		for {
			before := lastPID()
			found, unsure := killMarked(match, among)
			for _, pid := range found {
				killed[pid] = true
			}
			if len(found) > 0 {
				among, passes = everyProcess, 0 // those that were killed may have started others
				return false
			}
			if unsure {
				return false
			}
			// One that has ended may have started another since the list was made.
			passes++
			after := lastPID()
			if after == before || passes == maxPasses {
				return true
			}
			among = everyProcess
			if after > before {
				among = pidRange{after: before}
			}
		}
	})
	reap(slices.Collect(maps.Keys(killed)))
	return killed
}

// maxPasses is how often the processes are looked at that others start meanwhile.
const maxPasses = 3

// reap reaps processes that were killed where the caller is process 1, to which
// the kernel gives those whose parents are dead.
func reap(pids []int) {
	if os.Getpid() != 1 {
		return
	}
	for _, pid := range pids {
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// killMarked kills those that are there now and returns their ids. It is unsure if there is one whose environment
// cannot be told at this moment.
func killMarked(match func(marker string) bool, among pidRange) (found []int, unsure bool) {
	buf := make([]byte, 0, 64<<10)
	names, listed := among.names()
	for name := range names {
		env, unsureNow := settledEnviron(name, buf)
		unsure = unsure || unsureNow
		if !hasMarker(env, match) {
			continue
		}
		if !listed { // the id may be that of a thread
			return killMarked(match, everyProcess)
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
		env, unsureNow = settledEnviron(name, buf)
		unsure = unsure || unsureNow
		if hasMarker(env, match) && p.Kill() == nil {
			found = append(found, pid)
		}
		_ = p.Release()
	}
	return found, unsure
}

// settledEnviron is environ, and unsure if the environment is empty because the process is about to become another
// program (execve): the memory of the old one is gone, or the new one's is not complete.
func settledEnviron(pid string, buf []byte) (env []byte, unsure bool) {
	env = environ(pid, buf)
	if env == nil || len(env) > 0 {
		return env, false
	}
	was, complete := program(pid)
	if was == "" {
		return env, false
	}
	// The first reading may have been of memory that is gone by now.
	env = environ(pid, buf)
	is, _ := program(pid)
	return env, len(env) == 0 && (!complete || is != was)
}

// program returns where a process has its code and its stack, which differs with each program that it becomes, and whether
// its memory is complete: the kernel sets the code after the environment. It is empty of what has no memory: threads of the
// kernel, and processes that have ended.
func program(pid string) (at string, complete bool) {
	const size, code, stack = 20, 23, 25 // of the fields from the third on
	fields, err := statFields(pid)
	if err != nil || len(fields) <= stack || fields[size] == "0" {
		return "", false
	}
	return fields[code] + " " + fields[stack], fields[code] != "0"
}

// countMarked returns how many threads the processes have that have a marker, or are in a
// process group.
func countMarked(marker string, group int) (n int) {
	env := make([]byte, 0, 64<<10)
	for name := range processes() {
		fields, err := statFields(name)
		if err != nil {
			continue // gone
		}
		if fields[2] == strconv.Itoa(group) || hasMarker(environ(name, env), func(m string) bool { return m == marker }) {
			threads, _ := strconv.Atoi(fields[17]) // 0 if it is none
			n += threads
		}
	}
	return n
}

// processes yields the ids of all processes but this one, as names in /proc.
func processes() iter.Seq[string] {
	return func(yield func(string) bool) {
		proc, err := os.Open("/proc")
		if err != nil {
			return
		}
		defer func() { _ = proc.Close() }() // it was only read
		names, _ := proc.Readdirnames(-1)   // those it has returned are there
		self := strconv.Itoa(os.Getpid())
		for _, name := range names {
			if name[0] >= '1' && name[0] <= '9' && name != self && !yield(name) {
				return
			}
		}
	}
}

// environ reads the environment of a process into buf. It returns nil if it cannot be read, as another
// user's. It is called for every process of the machine: [os.ReadFile] takes twice as long.
func environ(pid string, buf []byte) []byte { return readFile("/proc/"+pid+"/environ", buf) }

// readFile reads a file into buf; it returns nil if it cannot be opened.
func readFile(path string, buf []byte) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
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

// hasMarker reports whether an environment has a value of Marker that matches.
func hasMarker(env []byte, match func(marker string) bool) bool {
	if !bytes.Contains(env, []byte(Marker)) {
		return false
	}
	for entry := range strings.SplitSeq(string(env), "\x00") {
		if value, ok := strings.CutPrefix(entry, Marker+"="); ok && match(value) {
			return true
		}
	}
	return false
}

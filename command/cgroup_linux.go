package command

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ownCgroup returns the directory of the caller's own cgroup (version 2); empty
// if the caller cannot make others in it.
var ownCgroup = sync.OnceValue(func() string {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok || strings.Contains(path, "..") { // outside of what is mounted here
			continue
		}
		// The second one is where version 1 is mounted, too.
		for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			var fs unix.Statfs_t
			dir := filepath.Join(mount, path)
			if unix.Statfs(dir, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC && unix.Access(dir+"/cgroup.procs", unix.W_OK) == nil {
				return dir
			}
		}
	}
	return ""
})

// controlledCgroup returns the directory in which cgroups can limit memory and processes; empty if there is
// none.
var controlledCgroup = sync.OnceValue(func() string {
	own := ownCgroup()
	if own == "" {
		return ""
	}
	// A cgroup with processes cannot have others with limits below it. So systemd can start a
	// service in one below that of the service (Delegate, DelegateSubgroup).
	for _, dir := range []string{own, filepath.Dir(own)} {
		if (dir == own || delegated(dir)) && enableControllers(dir) {
			return dir
		}
	}
	if moveBelow(own) {
		return own
	}
	return ""
})

// ControlCgroup reports whether runs have cgroups that limit memory and processes. For that it may
// have to move this process, if it is alone in its cgroup, to one below. It does so at its first call or at the first
// run with such limits. It should be called when a process starts, before others run.
func ControlCgroup() bool { return controlledCgroup() != "" }

// delegated reports whether systemd has left a cgroup to the service that runs in it.
func delegated(dir string) bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 1)
		if n, err := unix.Getxattr(dir, name, value); err == nil && n == 1 && value[0] == '1' {
			return unix.Access(dir+"/cgroup.procs", unix.W_OK) == nil
		}
	}
	return false
}

// enableControllers lets the cgroups in dir limit memory and processes.
func enableControllers(dir string) bool {
	// An error shows in what is read.
	_ = os.WriteFile(dir+"/cgroup.subtree_control", []byte("+memory +pids"), 0)
	text, err := os.ReadFile(dir + "/cgroup.subtree_control")
	enabled := strings.Fields(string(text))
	return err == nil && slices.Contains(enabled, "memory") && slices.Contains(enabled, "pids")
}

// movedTo is the cgroup to which moveBelow has moved this process; nil for none.
var movedTo atomic.Pointer[string]

// moveBelow moves this process to a cgroup below its own, if it is alone there, so that others below
// that can have limits.
func moveBelow(own string) bool {
	available, err := os.ReadFile(own + "/cgroup.controllers")
	has := strings.Fields(string(available))
	if err != nil || !slices.Contains(has, "memory") || !slices.Contains(has, "pids") || !alone(own) {
		return false
	}
	// Its name is like that of a run of this process: Sweep deletes it when this process is dead.
	below := filepath.Join(own, cgroupPrefix+callerID()+".worker")
	if callerID() == "" || os.Mkdir(below, 0o755) != nil {
		return false
	}
	self := []byte("0")
	if os.WriteFile(below+"/cgroup.procs", self, 0) == nil && enableControllers(own) {
		movedTo.Store(&below)
		return true
	}
	_ = os.WriteFile(own+"/cgroup.procs", self, 0)
	_ = unix.Rmdir(below)
	return false
}

// alone reports whether this process is the only one in a cgroup.
func alone(dir string) bool {
	text, err := os.ReadFile(dir + "/cgroup.procs")
	return err == nil && strings.TrimSpace(string(text)) == strconv.Itoa(os.Getpid())
}

// cgroupPrefix begins the names of the cgroups of runs; the run's marker follows.
const cgroupPrefix = "batchfleet-"

// cgroup is a cgroup in which a run's process starts, and which none of its descendants
// leaves.
type cgroup struct {
	dir     string // empty for none
	limited bool   // it has the limits of the run
}

// newCgroup makes a cgroup, or takes one of idle; it has no directory where that is not possible.
func newCgroup(marker string, l Limits, idle *Cgroups) cgroup {
	if marker == "" || ownCgroup() == "" {
		return cgroup{}
	}
	if (l.TotalMemory > 0 || l.Processes > 0) && controlledCgroup() != "" {
		if g := makeCgroup(controlledCgroup(), marker); g.dir != "" && g.limit(l) {
			return g
		}
	}
	if g := idle.take(); g.dir != "" {
		return g
	}
	return makeCgroup(ownCgroup(), marker)
}

func makeCgroup(in, marker string) cgroup {
	g := cgroup{dir: filepath.Join(in, cgroupPrefix+marker)}
	if os.Mkdir(g.dir, 0o755) != nil {
		return cgroup{}
	}
	if !canKill(g.dir) {
		_ = g.rmdir()
		return cgroup{}
	}
	return g
}

// canKill reports whether the kernel kills what is in a cgroup: from Linux 5.14. It is asked once.
func canKill(dir string) bool {
	killable.Do(func() { killable.is = unix.Access(dir+"/cgroup.kill", unix.W_OK) == nil })
	return killable.is
}

var killable struct {
	sync.Once
	is bool
}

// limit sets the limits of a run, or deletes the cgroup.
func (g *cgroup) limit(l Limits) bool {
	set := func(name string, value int64) error {
		return os.WriteFile(filepath.Join(g.dir, name), strconv.AppendInt(nil, value, 10), 0)
	}
	var err error
	if l.Processes > 0 {
		err = set("pids.max", int64(l.Processes))
	}
	if l.TotalMemory > 0 {
		err = errors.Join(err, set("memory.max", l.TotalMemory))
		_ = set("memory.swap.max", 0)  // is missing where there is no swap
		_ = set("memory.oom.group", 1) // otherwise a part of the program goes on
	}
	if err != nil {
		_ = g.rmdir()
		return false
	}
	g.limited = true
	return true
}

// event returns a number of a file of events, 0 if there is none.
func (g *cgroup) event(file, name string) int {
	text, _ := os.ReadFile(filepath.Join(g.dir, file)) // an error means no events
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(value))
			return n
		}
	}
	return 0
}

// threads returns how many threads there are in the cgroup and in those that its processes have made in it.
func (g *cgroup) threads() (n int) {
	_ = filepath.WalkDir(g.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			text, _ := os.ReadFile(filepath.Join(path, "cgroup.threads")) // an error means that it is gone
			n += bytes.Count(text, []byte("\n"))
		}
		return nil
	})
	return n
}

// isEmpty reports whether neither processes nor other cgroups are in the cgroup.
func (g *cgroup) isEmpty() bool {
	var st unix.Stat_t
	events := readFile(filepath.Join(g.dir, "cgroup.events"), make([]byte, 0, 256))
	return bytes.Contains(events, []byte("populated 0\n")) && unix.Lstat(g.dir, &st) == nil && st.Nlink == 2
}

// kill kills what is in the cgroup, deletes it and returns the ids of what it has
// killed.
func (g *cgroup) kill() (pids []int) {
	if g.dir == "" || g.rmdir() == nil {
		return nil
	}
	text, _ := os.ReadFile(g.dir + "/cgroup.procs") // an error means no ids
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 { // 0 is of another namespace
			pids = append(pids, pid)
		}
	}
	until(sweepWait, func() bool {
		_ = os.WriteFile(g.dir+"/cgroup.kill", []byte("1"), 0) // rmdir shows whether it has worked
		return g.rmdir() == nil
	})
	reap(pids)
	return pids
}

// rmdir deletes the cgroup and those that its processes have made in it. It fails
// while there is a process in one of them.
func (g *cgroup) rmdir() error {
	err := rmdir(g.dir)
	if err == nil {
		return nil
	}
	entries, _ := os.ReadDir(g.dir) // an error of Rmdir is more precise
	for _, e := range entries {
		if e.IsDir() {
			below := cgroup{dir: filepath.Join(g.dir, e.Name())}
			_ = below.rmdir() // that of g fails, too
		}
	}
	return rmdir(g.dir)
}

// rmdir deletes one cgroup. Other processes sweep as well: one that is gone is deleted.
func rmdir(dir string) error {
	if err := unix.Rmdir(dir); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// sweepCgroups kills the cgroups of the runs whose marker matches.
func sweepCgroups(match func(marker string) bool) (pids []int) {
	own := ownCgroup()
	if own == "" {
		return nil
	}
	// Runs with limits may have had theirs beside the one of their caller.
	dirs := []string{own}
	if below := movedTo.Load(); below != nil { // of processes that this one has started and that run commands, too
		dirs = append(dirs, *below)
	}
	if above := filepath.Dir(own); delegated(above) {
		dirs = append(dirs, above)
	}
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir) // those it has returned are there
		for _, e := range entries {
			if marker, ok := strings.CutPrefix(e.Name(), cgroupPrefix); ok && match(marker) {
				g := cgroup{dir: filepath.Join(dir, e.Name())}
				pids = append(pids, g.kill()...)
			}
		}
	}
	return pids
}

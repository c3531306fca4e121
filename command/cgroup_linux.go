package command

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

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

// cgroupPrefix begins the names of the cgroups of runs; the run's marker follows.
const cgroupPrefix = "batchfleet-"

// cgroup is the directory of a cgroup in which a run's process starts, and which
// none of its descendants leaves. It has no controllers and so sets no limits.
type cgroup string

// newCgroup makes a cgroup; its name is empty where that is not possible.
func newCgroup(marker string) cgroup {
	if marker == "" || ownCgroup() == "" {
		return ""
	}
	g := cgroup(filepath.Join(ownCgroup(), cgroupPrefix+marker))
	if os.Mkdir(string(g), 0o755) != nil {
		return ""
	}
	if unix.Access(string(g)+"/cgroup.kill", unix.W_OK) != nil { // before Linux 5.14
		_ = g.rmdir()
		return ""
	}
	return g
}

// kill kills what is in the cgroup, deletes it and returns the ids of what it has
// killed.
func (g cgroup) kill() (pids []int) {
	if g == "" || g.rmdir() == nil {
		return nil
	}
	text, _ := os.ReadFile(string(g) + "/cgroup.procs") // an error means no ids
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 { // 0 is of another namespace
			pids = append(pids, pid)
		}
	}
	until(func() bool {
		_ = os.WriteFile(string(g)+"/cgroup.kill", []byte("1"), 0) // rmdir shows whether it has worked
		return g.rmdir() == nil
	})
	reap(pids)
	return pids
}

// rmdir deletes the cgroup and those that its processes have made in it. It fails
// while there is a process in one of them.
func (g cgroup) rmdir() error {
	entries, _ := os.ReadDir(string(g)) // an error of Rmdir is more precise
	for _, e := range entries {
		if e.IsDir() {
			_ = (g + "/" + cgroup(e.Name())).rmdir() // that of g fails, too
		}
	}
	return unix.Rmdir(string(g))
}

// sweepCgroups kills the cgroups of the runs whose marker matches.
func sweepCgroups(match func(marker string) bool) (pids []int) {
	if ownCgroup() == "" {
		return nil
	}
	entries, _ := os.ReadDir(ownCgroup()) // those it has returned are there
	for _, e := range entries {
		if marker, ok := strings.CutPrefix(e.Name(), cgroupPrefix); ok && match(marker) {
			pids = append(pids, cgroup(filepath.Join(ownCgroup(), e.Name())).kill()...)
		}
	}
	return pids
}

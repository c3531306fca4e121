package member

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Usage measures the used part of the CPU: of the machine, or of the limit of the worker's control groups, whichever is more. It reads /proc and control
// groups of both versions. It must not be used concurrently.
type Usage struct {
	root   fs.FS
	groups []group
	total  uint64 // of the machine, at the last sample
	busy   uint64
	spent  []float64 // of groups, in seconds
	at     time.Time
}

// NewUsage returns a Usage for this machine.
func NewUsage() *Usage { return newUsage(os.DirFS("/")) }

func newUsage(root fs.FS) *Usage { return &Usage{root: root} }

// Sample returns the used part since the last call, from 0 to 1. The first call returns 0. It is an error on systems other than Linux.
func (u *Usage) Sample() (float64, error) {
	first := u.at.IsZero()
	if first && runtime.GOOS != "linux" {
		return 0, errors.New("the CPU is measured on Linux only")
	}
	now := time.Now()
	used, err := u.machine()
	if err != nil {
		return 0, err
	}
	if first {
		u.groups = findGroups(u.root) // may be none: then only the machine counts
		u.spent = make([]float64, len(u.groups))
	}
	passed := now.Sub(u.at)
	for i, g := range u.groups {
		spent, cores, err := g.read(u.root)
		if err != nil {
			continue // it has no limit, or is not visible here
		}
		if before := u.spent[i]; before > 0 && passed > 0 && cores > 0 {
			used = max(used, (spent-before)/(passed.Seconds()*cores))
		}
		u.spent[i] = spent
	}
	u.at = now
	if first {
		return 0, nil
	}
	return max(0, min(1, used)), nil
}

// machine returns the use of the whole machine.
func (u *Usage) machine() (float64, error) {
	text, err := fs.ReadFile(u.root, "proc/stat")
	if err != nil {
		return 0, err
	}
	total, busy, err := parseStat(string(text))
	if err != nil {
		return 0, err
	}
	used := 0.0
	if total > u.total && busy >= u.busy {
		used = float64(busy-u.busy) / float64(total-u.total)
	}
	u.total, u.busy = total, busy
	return used, nil
}

// parseStat reads the first line of /proc/stat:
//
//	cpu  user nice system idle iowait irq softirq steal guest guest_nice
//
// Waiting for a disk is not busy. The times of guests are included in user and nice.
func parseStat(text string) (total, busy uint64, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 5 || fields[0] != "cpu" {
		return 0, 0, fmt.Errorf("/proc/stat begins with %.80q", line)
	}
	for i, field := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseUint(field, 10, 62)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/stat: %w", err)
		}
		total += n
		if i != 3 && i != 4 {
			busy += n
		}
	}
	return total, busy, nil
}

// group is a control group whose use of the CPU may be limited.
type group struct {
	v2   bool
	dir  string // with the limit
	acct string // with the usage; the same in version 2
}

// read returns how many seconds of a core the group has used, and how many cores it may use. It is an error if it has no limit.
func (g group) read(root fs.FS) (spent, cores float64, err error) {
	text := func(dir, name string) string {
		var b []byte
		if err == nil {
			b, err = fs.ReadFile(root, path.Join(dir, name))
		}
		return strings.TrimSpace(string(b))
	}
	var quota, period, used string
	unit := 1e-6
	if g.v2 {
		quota, period, _ = strings.Cut(text(g.dir, "cpu.max"), " ")
		used = statField(text(g.dir, "cpu.stat"), "usage_usec")
	} else {
		quota, period = text(g.dir, "cpu.cfs_quota_us"), text(g.dir, "cpu.cfs_period_us")
		used, unit = text(g.acct, "cpuacct.usage"), 1e-9
	}
	if err != nil {
		return 0, 0, err
	}
	q, errQ := strconv.ParseUint(quota, 10, 53) // "max" and -1 are no limit
	p, errP := strconv.ParseUint(period, 10, 53)
	n, errN := strconv.ParseUint(used, 10, 64)
	if err := errors.Join(errQ, errP, errN); err != nil {
		return 0, 0, err
	}
	if q == 0 || p == 0 {
		return 0, 0, fmt.Errorf("a limit of %d µs in %d", q, p)
	}
	return float64(n) * unit, float64(q) / float64(p), nil
}

// statField returns the value of a line "name value".
func statField(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// findGroups returns the groups of this process, and those above them: each may have a limit.
func findGroups(root fs.FS) (groups []group) {
	own, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	mountinfo, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return nil
	}
	mounts := parseMounts(string(mountinfo))
	var v2, cpu, acct string
	for line := range strings.Lines(string(own)) {
		// 0::/user.slice in version 2, 4:cpu,cpuacct:/user.slice in version 1
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, at, _ := strings.Cut(rest, ":")
		if controllers == "" && at != "" {
			v2 = at
		}
		for c := range strings.SplitSeq(controllers, ",") {
			switch c {
			case "cpu":
				cpu = at
			case "cpuacct":
				acct = at
			}
		}
	}
	if m, ok := mounts["cpu"]; ok && cpu != "" {
		limits := m.dirs(cpu)
		used := limits
		if a, ok := mounts["cpuacct"]; ok {
			used = a.dirs(acct)
		}
		for i := range min(len(limits), len(used)) {
			groups = append(groups, group{dir: limits[i], acct: used[i]})
		}
	}
	if m, ok := mounts["cgroup2"]; ok && v2 != "" {
		for _, dir := range m.dirs(v2) {
			groups = append(groups, group{v2: true, dir: dir, acct: dir})
		}
	}
	return groups
}

// mount is a hierarchy of groups: the group root of it is at the directory point.
type mount struct{ root, point string }

// parseMounts reads /proc/self/mountinfo, and returns the hierarchies cpu, cpuacct and cgroup2.
//
//	35 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:10 - cgroup cgroup rw,cpu,cpuacct
func parseMounts(text string) map[string]mount {
	mounts := map[string]mount{}
	for line := range strings.Lines(text) {
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(kind) < 3 {
			continue
		}
		m := mount{fields[3], fields[4]}
		switch kind[0] {
		case "cgroup2":
			mounts["cgroup2"] = m
		case "cgroup":
			for option := range strings.SplitSeq(kind[2], ",") {
				if option == "cpu" || option == "cpuacct" {
					mounts[option] = m
				}
			}
		}
	}
	return mounts
}

// maxDepth is how many groups are read at most: the process's own and those above it.
const maxDepth = 32

// dirs returns the directories of a group and of those above it, as names in the root file system. A container may show its own group
// as the root, under another name.
func (m mount) dirs(at string) (dirs []string) {
	rel, ok := strings.CutPrefix(at, strings.TrimSuffix(m.root, "/"))
	if !ok || !strings.HasPrefix(rel, "/") {
		rel = "/"
	}
	for rel = path.Clean(rel); len(dirs) < maxDepth; rel = path.Dir(rel) {
		dirs = append(dirs, strings.TrimPrefix(path.Join(m.point, rel), "/"))
		if rel == "/" {
			break
		}
	}
	return dirs
}

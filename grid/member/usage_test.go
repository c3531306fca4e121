package member

import (
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

// The texts are those of real machines.
const (
	hybridMounts = `24 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 24 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid,nodev,noexec,relatime shared:10 - cgroup2 cgroup2 rw,nsdelegate
36 30 0:32 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid,nodev,noexec,relatime shared:16 - cgroup cgroup rw,cpu,cpuacct
37 30 0:33 / /sys/fs/cgroup/memory rw,nosuid,nodev,noexec,relatime shared:17 - cgroup cgroup rw,memory
`
	hybridGroups = `9:memory:/batch
4:cpu,cpuacct:/batch/worker
1:name=systemd:/batch/worker
0::/batch/worker
`
	dockerMounts = `700 600 0:55 / / rw,relatime - overlay overlay rw
705 700 0:60 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw
`
	oldDockerMounts = `705 700 0:60 / /sys/fs/cgroup ro - tmpfs tmpfs rw
706 705 0:61 /docker/abc /sys/fs/cgroup/cpuacct ro - cgroup cgroup rw,cpuacct
707 705 0:62 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu
`
	idle = "cpu  1000 0 1000 8000 500 0 0 0 300 0\ncpu0 1 2 3 4\n"
)

// machine is a root file system.
type machine fstest.MapFS

func (m machine) set(name, text string) { m[name] = &fstest.MapFile{Data: []byte(text)} }

func (m machine) fs() fs.FS { return fstest.MapFS(m) }

func TestG64UsageOfTheMachine(t *testing.T) {
	tests := []struct {
		name, now string
		want      float64
	}{
		{"half of it", "cpu  1050 0 1000 8050 500 0 0 0 300 0\n", 0.5},
		{"what waits for a disk is not busy", "cpu  1000 0 1000 8000 600 0 0 0 300 0\n", 0},
		{"a guest counts once", "cpu  1100 0 1000 8000 500 0 0 0 400 0\n", 1},
		{"a guest counts once, and the rest is idle", "cpu  1025 0 1000 8075 500 0 0 0 325 0\n", 0.25},
		{"all other ways to be busy", "cpu  1001 2 1003 8079 500 4 5 6 300 0\n", 0.21},
		{"counters that have begun again", "cpu  1 0 1 10 0 0 0 0 0 0\n", 0},
		{"an old kernel", "cpu  1100 0 1000 8100 500\n", 0.5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := machine{}
			m.set("proc/stat", idle)
			u := newUsage(m.fs())
			if used, err := u.Sample(); used != 0 || err != nil {
				t.Errorf("first %g, %v; want 0", used, err)
			}
			m.set("proc/stat", tt.now)
			if used, err := u.Sample(); math.Abs(used-tt.want) > 1e-9 || err != nil {
				t.Errorf("%g, %v; want %g", used, err, tt.want)
			}
		})
	}
}

func TestG64UsageOfAControlGroup(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  float64
	}{
		{"version 2, in a container", map[string]string{
			"proc/self/mountinfo": dockerMounts, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/cpu.max": "50000 100000\n", "sys/fs/cgroup/cpu.stat": "usage_usec SPENT\nuser_usec 1\nsystem_usec 1\n",
		}, 0.8},
		{"version 2 without a limit", map[string]string{
			"proc/self/mountinfo": dockerMounts, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/cpu.max": "max 100000\n", "sys/fs/cgroup/cpu.stat": "usage_usec SPENT\n",
		}, 0.1},
		{"version 2, with a limit further up", map[string]string{
			"proc/self/mountinfo": dockerMounts, "proc/self/cgroup": "0::/batch.slice/worker.service\n",
			"sys/fs/cgroup/batch.slice/worker.service/cpu.max": "max 100000\n", "sys/fs/cgroup/batch.slice/worker.service/cpu.stat": "usage_usec SPENT\n",
			"sys/fs/cgroup/batch.slice/cpu.max": "200000 100000\n", "sys/fs/cgroup/batch.slice/cpu.stat": "usage_usec SPENT\n",
		}, 0.2},
		{"version 1 on a machine that has both", map[string]string{
			"proc/self/mountinfo": hybridMounts, "proc/self/cgroup": hybridGroups,
			"sys/fs/cgroup/cpu,cpuacct/batch/worker/cpu.cfs_quota_us":  "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/batch/worker/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/batch/worker/cpuacct.usage":     "SPENT000\n",
			"sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us":         "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_period_us":        "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/batch/cpuacct.usage":            "SPENT000\n",
		}, 0.4},
		{"version 1 in a container", map[string]string{
			"proc/self/mountinfo": oldDockerMounts, "proc/self/cgroup": "5:cpuacct:/docker/abc\n4:cpu:/docker/abc\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpuacct/cpuacct.usage": "SPENT000\n",
		}, 0.2},
		{"a group that is not shown", map[string]string{"proc/self/mountinfo": dockerMounts, "proc/self/cgroup": "0::/../other\n"}, 0.1},
		{"nothing to read", nil, 0.1},
		{"nonsense", map[string]string{
			"proc/self/mountinfo": "a b - c\n\n - cgroup2\n" + dockerMounts, "proc/self/cgroup": "0::/\n::\nx\n",
			"sys/fs/cgroup/cpu.max": "0 0\n", "sys/fs/cgroup/cpu.stat": "usage_usec\n",
		}, 0.1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := machine{}
				spent := func(usec int, stat string) {
					m.set("proc/stat", stat)
					for name, text := range tt.files {
						m.set(name, strings.ReplaceAll(text, "SPENT", fmt.Sprint(usec)))
					}
				}
				spent(5_000_000, idle)
				u := newUsage(m.fs())
				if _, err := u.Sample(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(250 * time.Millisecond)
				spent(5_100_000, "cpu  1010 0 1000 8090 500 0 0 0 300 0\n") // a tenth of the machine, 0.4 cores
				if used, err := u.Sample(); math.Abs(used-tt.want) > 1e-6 || err != nil {
					t.Errorf("%g, %v; want %g", used, err, tt.want)
				}
			})
		})
	}
}

func TestG64UsageErrors(t *testing.T) {
	for _, text := range []string{"", "cpu", "cpu 1 2 3", "cpux 1 2 3 4 5", "cpu 1 2 three 4 5", "cpu 1 2 -3 4 5"} {
		m := machine{}
		m.set("proc/stat", text)
		if used, err := newUsage(m.fs()).Sample(); err == nil {
			t.Errorf("%q: %g, want an error", text, used)
		}
	}
	if _, err := newUsage(machine{}.fs()).Sample(); err == nil {
		t.Error("no /proc: want an error")
	}
}

func FuzzUsage(f *testing.F) {
	f.Add(idle, dockerMounts, "0::/\n", "50000 100000\n", "usage_usec 5\n")
	f.Add(idle, hybridMounts, hybridGroups, "-1", "5")
	f.Add(idle, oldDockerMounts, "5:cpuacct:/docker/abc\n4:cpu:/docker/abc/../../..\n", "1", "18446744073709551615")
	f.Fuzz(func(t *testing.T, stat, mounts, groups, limit, used string) {
		m := machine{}
		m.set("proc/stat", stat)
		m.set("proc/self/mountinfo", mounts)
		m.set("proc/self/cgroup", groups)
		for _, g := range findGroups(m.fs()) {
			for _, name := range []string{"/cpu.max", "/cpu.cfs_quota_us", "/cpu.cfs_period_us"} {
				m.set(g.dir+name, limit)
			}
			m.set(g.acct+"/cpu.stat", used)
			m.set(g.acct+"/cpuacct.usage", used)
		}
		u := newUsage(m.fs())
		for range 2 {
			if used, _ := u.Sample(); !(used >= 0 && used <= 1) {
				t.Fatalf("used %g", used)
			}
		}
	})
}

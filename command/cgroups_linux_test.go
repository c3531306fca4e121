package command_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/command"
)

func TestCgroupsAreUsedAgainAndLeaveNothing(t *testing.T) {
	needCgroups(t)
	kept := new(command.Cgroups)
	defer kept.Close()
	in := func(c *command.Command) (cgroup string, rest []string) {
		t.Helper()
		c.Cgroups = kept
		got, err := run(t, c)
		if err != nil || len(got) == 0 {
			t.Fatalf("got %q, %v", got, err)
		}
		for _, line := range got {
			if dir, ok := strings.CutPrefix(line, "0::"); ok {
				return filepath.Base(dir), got
			}
		}
		return "", got
	}
	first, _ := in(shell("cat /proc/self/cgroup"))
	if second, _ := in(shell("cat /proc/self/cgroup")); second != first {
		t.Errorf("a run was in %s, want %s, which the one before has left", second, first)
	}
	_, got := in(self("parent", "escape"))
	wantGone(t, number(got[0]))
	if after, _ := in(shell("cat /proc/self/cgroup")); after == first {
		t.Errorf("a run was in %s, in which another one had left a process", after)
	}
	started := shell("cat /proc/self/cgroup")
	started.Started = func(command.Process) error { return nil }
	before := cgroups(t)
	if _, _ = in(started); cgroups(t) != before {
		t.Errorf("there are %d cgroups, and were %d before a run whose process is known", cgroups(t), before)
	}
	kept.Close()
	if left := cgroups(t); left > 0 {
		t.Errorf("%d cgroups are left", left)
	}
	if _, _ = in(shell("cat /proc/self/cgroup")); cgroups(t) > 0 {
		t.Error("a cgroup was kept after Close")
	}
}

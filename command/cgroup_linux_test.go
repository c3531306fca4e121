package command

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// Two processes that start at once sweep the same cgroups: what the other one has deleted is not waited for.
func TestCgroupThatAnotherProcessHasDeletedIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		g := &cgroup{dir: filepath.Join(t.TempDir(), "gone")}
		if pids := g.kill(); len(pids) > 0 || time.Since(began) > 0 {
			t.Errorf("it took %s, and killed %v", time.Since(began), pids)
		}
	})
}

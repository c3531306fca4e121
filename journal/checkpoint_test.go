package journal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/journal"
)

func wants(j interface{ WantsCheckpoint() <-chan struct{} }) bool {
	select {
	case <-j.WantsCheckpoint():
		return true
	default:
		return false
	}
}

func TestE06JournalWantsCheckpointsAsItGrows(t *testing.T) {
	dir := t.TempDir()
	j, _ := openWith(t, dir, journal.Options{CheckpointAfter: 1000})
	record := strings.Repeat("x", 84) // 100 bytes with its header
	grow := func(records int) bool {
		t.Helper()
		for range records {
			appendAll(t, j, record)
		}
		return wants(j)
	}
	steps := []struct {
		name   string
		before func()
		grow   int
		want   bool
	}{
		{"below the limit", nil, 9, false},
		{"at the limit", nil, 1, true},
		{"soon after it was not made", nil, 2, false},
		{"a quarter later", nil, 1, true},
		{"after one that was given up", func() {
			c := begin(t, j)
			if _, err := j.Checkpoint(); err == nil {
				t.Error("two checkpoints at a time")
			}
			grow(5)
			c.Abort()
			c.Abort()
		}, 0, true},
		{"after a large one", func() { checkpoint(t, j, strings.Repeat("y", 3000)) }, 30, false},
		{"when the segments have outgrown it", nil, 1, true},
	}
	for _, s := range steps {
		if s.before != nil {
			s.before()
		}
		if got := grow(s.grow); got != s.want {
			t.Errorf("%s: wants a checkpoint: %v, want %v", s.name, got, s.want)
		}
	}
	closed(t, j)
}

func TestE06JournalWantsCheckpointOfWhatItFinds(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		j, _ := open(t, dir)
		appendAll(t, j, strings.Repeat("x", 33<<20))
		closed(t, j)
	}
	j, _ := open(t, dir)
	if !wants(j) {
		t.Error("66 MiB of segments, and no checkpoint is wanted")
	}
	checkpoint(t, j, "state")
	appendAll(t, j, "y")
	if wants(j) {
		t.Error("another checkpoint is wanted at once")
	}
}

func TestE06JournalAbortedCheckpointLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	appendAll(t, j, "a")
	c := begin(t, j)
	if err := c.Add([]byte(strings.Repeat("x", 2<<20))); err != nil {
		t.Fatal(err)
	}
	appendAll(t, j, "b")
	if names := glob(t, dir, "*.tmp"); len(names) != 1 {
		t.Errorf("a checkpoint is being written to %q", names)
	}
	c.Abort()
	if err := c.Done(); err == nil {
		t.Error("Done succeeds after Abort")
	}
	closed(t, j)
	if names := glob(t, dir, "checkpoint.*"); len(names) != 0 {
		t.Errorf("left behind: %q", names)
	}
	_, got := open(t, dir)
	wantRecords(t, got, "a", "b")
}

func TestE06JournalFailedCheckpointDeletesNothing(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	appendAll(t, j, "a")
	c := begin(t, j)
	if err := c.Add([]byte(strings.Repeat("x", 2<<20))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(only(t, dir, "*.tmp")); err != nil { // so that it cannot be renamed
		t.Fatal(err)
	}
	if err := c.Done(); err == nil || !strings.HasPrefix(err.Error(), "end checkpoint: rename") {
		t.Errorf("Done = %v", err)
	}
	appendAll(t, j, "b")
	checkpoint(t, j, "a b")
	closed(t, j)
	_, got := open(t, dir)
	wantRecords(t, got, "a b")
}

// twoCheckpoints returns a directory as it is when everything of a checkpoint
// is done but the removal of what is older. Its state is "a b c d" with the old
// files and "new" with the new ones, and then "e".
func twoCheckpoints(t *testing.T, first bool) string {
	t.Helper()
	dir := t.TempDir()
	j, _ := open(t, dir)
	if !first {
		checkpoint(t, j, "a")
	} else {
		appendAll(t, j, "a")
	}
	appendAll(t, j, "b")
	for _, r := range []string{"c", "d"} {
		begin(t, j).Abort()
		appendAll(t, j, r)
	}
	c := begin(t, j)
	if err := c.Add([]byte("new")); err != nil {
		t.Fatal(err)
	}
	for _, step := range c.Steps() {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	appendAll(t, j, "e")
	closed(t, j)
	return dir
}

func TestE06JournalCrashWhileOldFilesAreRemoved(t *testing.T) {
	for name, first := range map[string]bool{"the first checkpoint": true, "a later one": false} {
		old := len(glob(t, twoCheckpoints(t, first), "*.v1")) - 2
		for removed := range old + 1 {
			for _, damaged := range []bool{false, true} {
				dir := twoCheckpoints(t, first)
				// They go in this order, the old checkpoint first.
				checkpoints := glob(t, dir, "checkpoint.*")
				newest := checkpoints[len(checkpoints)-1]
				files := append(checkpoints[:len(checkpoints)-1], glob(t, dir, "segment.*")...)
				for _, f := range files[:removed] {
					if err := os.Remove(filepath.Join(dir, f)); err != nil {
						t.Fatal(err)
					}
				}
				want := "new e"
				if damaged {
					b := readFile(t, filepath.Join(dir, newest))
					b[18] ^= 1 // of "new"
					writeFile(t, filepath.Join(dir, newest), b)
					if want = "a b c d e"; removed > 0 {
						want = "e" // it is all there is
					}
				}
				j, got, log := openLogged(t, dir, retrying)
				if strings.Join(got, " ") != want || (log != "") != damaged {
					t.Errorf("%s, %d old files removed, damaged: %v: got %q, want %s; logged %s", name, removed, damaged, got, want, log)
				}
				closed(t, j)
				if n := len(glob(t, dir, "*.v1")); want != "a b c d e" && n != 2 {
					t.Errorf("%s, %d old files removed: %d files are left, want 2", name, removed, n)
				}
				// And again, with what Open has made of it.
				j, got, _ = openLogged(t, dir, retrying)
				if strings.Join(got, " ") != want {
					t.Errorf("%s, %d old files removed, damaged: %v: the second time got %q, want %s", name, removed, damaged, got, want)
				}
				checkpoint(t, j, "newest")
				closed(t, j)
				j, got = open(t, dir)
				wantRecords(t, got, "newest")
				closed(t, j)
			}
		}
	}
}

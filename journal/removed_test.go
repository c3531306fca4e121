package journal_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const removed = "removed or replaced"

// Files that have no name any more can still be written: nothing may be told to
// be safe there.
func TestE06JournalSaysThatItsDirectoryIsGone(t *testing.T) {
	root := t.TempDir()
	dir := root + "/journal"
	synctest.Test(t, func(t *testing.T) {
		j, _ := open(t, dir)
		appendAll(t, j, "before")
		if err := os.Rename(dir, root+"/away"); err != nil {
			t.Fatal(err)
		}
		if err := j.Commit(t.Context(), j.Append([]byte("lost")), true); err == nil || !strings.Contains(err.Error(), removed) {
			t.Errorf("Commit without a directory = %v", err)
		}
		if err := j.Err(); err == nil || !strings.Contains(err.Error(), removed) {
			t.Errorf("Err without a directory = %v", err)
		}
		if err := os.Rename(root+"/away", dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := j.Err(); err != nil {
			t.Errorf("with the directory back, Err = %v", err)
		}
		appendAll(t, j, "after")
		closed(t, j)
	})
	j, got := open(t, dir)
	wantRecords(t, got, "before", "lost", "after")
	closed(t, j)
}

func TestE06JournalLeavesTheNextOneInItsPlaceAlone(t *testing.T) {
	dir := t.TempDir() + "/journal"
	old, _ := open(t, dir)
	appendAll(t, old, "old")
	c := begin(t, old)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	next, _ := open(t, dir)
	appendAll(t, next, "next")
	if err := old.Commit(t.Context(), old.Append([]byte("old")), false); err == nil || !strings.Contains(err.Error(), removed) {
		t.Errorf("Commit to a segment in a directory of another journal = %v", err)
	}
	if err := c.Add([]byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := c.Done(); err == nil || !strings.Contains(err.Error(), removed) {
		t.Errorf("Done in a directory of another journal = %v", err)
	}
	closed(t, next)
	_ = old.Close() // cannot write
	next, got := open(t, dir)
	wantRecords(t, got, "next")
	closed(t, next)
}

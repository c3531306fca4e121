package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestG70BlobsOfKilledLeaderAreDeleted(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	temp, others := g.path("tmp"), g.path("others") // others is not deleted, whatever leads to it
	link := filepath.Join(temp, blobsPrefix+"link")
	if err := errors.Join(os.Mkdir(temp, 0o700), os.Mkdir(others, 0o700), os.Symlink(others, link)); err != nil {
		t.Fatal(err)
	}
	g.env = []string{"TMPDIR=" + temp}
	aged := func(want int, what string) { // makes directories as old as those of leaders that were killed long ago
		t.Helper()
		dirs, err := filepath.Glob(filepath.Join(temp, blobsPrefix+"*"))
		if err != nil || len(dirs) != want {
			t.Errorf("there is %q, %v; want %s", dirs, err, what)
		}
		for _, dir := range dirs {
			past := time.Now().Add(-time.Hour)
			if err := os.Chtimes(dir, past, past); err != nil {
				t.Fatal(err)
			}
		}
	}
	lives, killed := g.leader("0"), g.leader("0")
	killed.kill()
	aged(3, "two directories and a link")
	next := g.leader("0")
	aged(3, "the directories of the two that run, and the link")
	next.stop()
	lives.stop()
	aged(1, "the link")
	if _, err := os.Stat(others); err != nil {
		t.Error(err)
	}
}

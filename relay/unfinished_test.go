package relay

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/batchfleet/batchfleet/storage"
)

// A relay that is killed while it tries whether it can write leaves a file beside the tasks.
func TestR24R27UnfinishedFileOfTheStoreIsNoLostTask(t *testing.T) {
	r := newRig(t)
	id := r.create("")
	left := filepath.Join(r.Dir, tasksDir, storage.TempPrefix+"X")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = r.again(nil)
	if task := r.task(id); task.State != Queued {
		t.Errorf("the task beside it is %s", task.State)
	}
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if lost, err := os.ReadDir(filepath.Join(r.Dir, tasksDir, quarantineDir)); err != nil || len(lost) > 0 {
		t.Errorf("in the quarantine: %v, %v", lost, err)
	}
}

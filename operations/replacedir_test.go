package operations

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// replaceDir puts an empty directory in the place of the storage's, as a mount does.
func (r *rig) replaceDir() (hidden string) {
	r.Helper()
	hidden = r.dir + ".hidden"
	if err := errors.Join(os.Rename(r.dir, hidden), os.Mkdir(r.dir, 0o700)); err != nil {
		r.Fatal(err)
	}
	return hidden
}

// write makes an old file in the directory as others see it.
func (r *rig) write(name string) {
	r.Helper()
	path, at := filepath.Join(r.dir, name), time.Now().Add(-9*day)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600), os.Chtimes(path, at, at)); err != nil {
		r.Fatal(err)
	}
}

func TestJOperationsActOnTheDirectoryAsItIsNow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	r.write("uploads/hidden.pdf")
	for _, id := range []string{"a", "b", "c"} {
		r.write("results/" + id + "/result.json")
	}
	hidden := r.replaceDir()
	r.write("uploads/new.pdf")
	r.write("results/d/result.json")
	before := r.files()
	r.wantLines(r.plan("submit-batch", `{"dryRun":true,"objects":["uploads/new.pdf"]}`)[:1], "check run: 1 object is there")
	r.wantLines(r.plan("purge", `{"dryRun":true,"olderThanDays":2}`), "delete run: would delete 1 result, 1 object, 1 bytes")
	if got := r.files(); !slices.Equal(got, before) {
		t.Errorf("looking has left %q, there were %q", got, before)
	}
	r.wantLines(r.do("purge", `{"olderThanDays":2}`).lines, "delete succeeded: deleted 1 result, 1 object, 1 bytes")
	if _, err := os.Stat(hidden + "/results/a/result.json"); err != nil {
		t.Errorf("what is hidden: %v", err)
	}

	// As after an unmount; now the purge is the first to look.
	if err := errors.Join(os.RemoveAll(r.dir), os.Rename(hidden, r.dir)); err != nil {
		t.Fatal(err)
	}
	r.wantLines(r.do("purge", `{"olderThanDays":2}`).lines, "delete succeeded: deleted 3 results, 3 objects, 3 bytes")
}

package relay

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What this process saw made is sent as it is; what was touched since, or comes from an earlier process, is read for its hash.
func TestR26FilesAreCheckedUnlessNothingHasTouchedThem(t *testing.T) {
	r := newRig(t)
	id := r.uploading(oneFile)
	isChecked := func() bool {
		t.Helper()
		f, err := r.tasks.openChecked(id, r.task(id).Artifacts[0])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		_, is := f.(*checked)
		return is
	}
	if isChecked() {
		t.Error("a file that was just made is read for its hash")
	}
	file := r.tasks.dir.of(id, artifactsDir, r.task(id).Artifacts[0].Name)
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, time.Time{}, before.ModTime().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if !isChecked() {
		t.Error("a file that was touched is not checked")
	}
	if err := os.Chtimes(file, time.Time{}, before.ModTime()); err != nil || isChecked() {
		t.Errorf("as before: %v, or it is checked", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(filepath.Dir(file), "other") // with the same content and time
	if err := os.WriteFile(other, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(other, time.Time{}, before.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, file); err != nil || !isChecked() {
		t.Errorf("a file in its place: %v, or it is not checked", err)
	}
	if r = r.again(nil); !isChecked() {
		t.Error("a file of an earlier process is not checked")
	}
}

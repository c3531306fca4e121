//go:build unix

package relay

import (
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
)

func TestR70AllFilesAreForTheirOwnerAlone(t *testing.T) {
	before := syscall.Umask(0o077) // as the command does
	defer syscall.Umask(before)
	r := newRig(t)
	r.run(makes(map[string]string{"a.txt": "hello"}))
	id := r.create("")
	r.untilState(id, Succeeded)
	r.stop()
	var found []string
	err := filepath.WalkDir(r.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		name, err := filepath.Rel(r.Dir, path)
		found = append(found, strings.ReplaceAll(name, string(id), "ID"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all := " " + strings.Join(found, " ") + " "
	for _, want := range []string{
		"config", "logs", "tmp", "model_cache", "lock", ".gitignore", "tasks/_quarantine", "tasks/ID/task.json", "tasks/ID/input/request.json", "tasks/ID/work", "tasks/ID/artifacts/a.txt",
	} {
		if !strings.Contains(all, " "+want+" ") {
			t.Errorf("%s is missing in %s", want, all)
		}
	}
	ignored := r.read(filepath.Join(r.Dir, ".gitignore"))
	for _, line := range []string{"logs/", "tmp/", "tasks/**/artifacts/", "model_cache/", "/*"} {
		if !strings.Contains("\n"+ignored, "\n"+line+"\n") {
			t.Errorf(".gitignore has no line %s: %s", line, ignored)
		}
	}
}

// What the relay makes itself is so without a umask, too.
func TestR70OtherUsersAreKeptOutWithoutAUmask(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	r := newRig(t)
	r.create("")
	h := r.start()
	h.report(jobs.Progress{Message: "x"}, "x")
	err := filepath.WalkDir(r.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

package scratch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
)

// openPlaced opens a root whose attempts have their directories in places/JOB, and makes that of job-1.
func openPlaced(t *testing.T) (r *Root, place string) {
	t.Helper()
	dir := t.TempDir()
	r = open(t, dir)
	r.Place = func(id jobs.ID) string { return filepath.Join(dir, "places", string(id)) }
	place = r.Place("job-1")
	if err := os.MkdirAll(place, 0o700); err != nil {
		t.Fatal(err)
	}
	return r, place
}

func TestK12AttemptsOfAJobHaveTheirDirectoriesInItsPlace(t *testing.T) {
	r, place := openPlaced(t)
	d := attempt(t, r, 3)
	for got, want := range map[string]string{d.Work: "3/work", d.Input: "3/input", d.Output: "3/output"} {
		info, err := os.Lstat(got)
		if got != filepath.Join(place, want) || err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v, %v; want it at %s", got, info, err, want)
		}
	}
	if err := d.WriteParams([]byte("{}")); err != nil || d.Params != filepath.Join(place, "3/params") {
		t.Errorf("params are at %s, %v", d.Params, err)
	}
	again := attempt(t, r, 3) // the first is one that was given up and goes on
	if again.Work != filepath.Join(place, "3.2/work") {
		t.Errorf("a second attempt of this number works in %s", again.Work)
	}
	c := checkpointOf(t, r, "job-1")
	if !strings.HasPrefix(c.Dir, r.dir) {
		t.Errorf("the checkpoint is at %s, want it below %s", c.Dir, r.dir)
	}
	if err := c.Delete(); err != nil {
		t.Error(err)
	}
	// A closed directory; and one in which nothing was left, which another job might have.
	if err := errors.Join(os.WriteFile(filepath.Join(d.Work, "f"), nil, 0o600), os.Chmod(d.Work, 0)); err != nil {
		t.Fatal(err)
	}
	d.Remove()
	again.Remove()
	if left, err := os.ReadDir(place); err != nil || len(left) > 0 {
		t.Errorf("left in the place: %v, %v", left, err)
	}
	if kept := r.idleDirs.all; len(kept) > 0 {
		t.Errorf("%d are kept for other attempts", len(kept))
	}
	if left, err := os.ReadDir(r.own); err != nil || len(left) != 2 { // the lock, and the empty checkpoint
		t.Errorf("below WORK_DIR: %v, %v", left, err)
	}
}

func TestK12PlaceThatIsNoDirectoryOfItsOwnIsRefused(t *testing.T) {
	r, place := openPlaced(t)
	for _, tt := range []struct {
		name, want string
		make       func() error
	}{
		{"none", "no such file", func() error { return nil }},
		{"a link", "a symbolic link, not a directory", func() error { return os.Symlink(t.TempDir(), place) }},
		{"a file", "not a directory", func() error { return os.WriteFile(place, nil, 0o600) }},
		{"one that others may change", "others could change", func() error {
			return errors.Join(os.Mkdir(place, 0o700), os.Chmod(place, 0o777)) //nolint:gosec // this is the point
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := errors.Join(os.RemoveAll(place), tt.make()); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Attempt("job-1", 1); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), place) {
				t.Errorf("got %v, want %q and the path", err, tt.want)
			}
		})
	}
}

// What a killed process has left in a place is for its caller to delete.
func TestK12WhatIsLeftInAPlaceIsDeletedByItsCaller(t *testing.T) {
	_, place := openPlaced(t)
	victim := filepath.Join(t.TempDir(), "precious")
	closed := filepath.Join(place, "1", "work", "closed")
	if err := errors.Join(os.WriteFile(victim, nil, 0o600), os.MkdirAll(closed, 0o700), os.Symlink(filepath.Dir(victim), filepath.Join(closed, "link")), os.Chmod(closed, 0)); err != nil {
		t.Fatal(err)
	}
	deep(t, filepath.Join(place, "1"), 3000)
	for range 2 { // the second time there is nothing
		if err := RemoveAll(place); err != nil {
			t.Error(err)
		}
	}
	wantGone(t, place)
	wantThere(t, victim)
}

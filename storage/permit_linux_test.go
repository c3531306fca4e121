package storage_test

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/storage/storagetest"
)

func TestJWalkGoesPastWhatMayNotBeLookedAt(t *testing.T) {
	s, dir := newLocal(t)
	for _, name := range []string{"d/a/object", "d/b/object", "d/z/object", "d/hidden/object", "d/deep/hidden/object", "d/deep/object", "d/listed/object"} {
		storagetest.PutString(t, s, name, "x")
	}
	// Strangers may read and delete, but in those.
	modes := map[string]fs.FileMode{"/..": 0o755, "": 0o755, "/d/b": 0o555, "/d/hidden": 0, "/d/deep/hidden": 0, "/d/listed": 0o444}
	for _, name := range []string{"/d", "/d/a", "/d/z", "/d/deep"} {
		modes[name] = 0o777
	}
	t.Cleanup(func() {
		for name := range modes {
			_ = os.Chmod(dir+name, 0o777) // so that they can be deleted
		}
	})
	for name, mode := range modes {
		if err := os.Chmod(dir+name, mode); err != nil {
			t.Fatal(err)
		}
	}
	out, err := childCommand(t, "walk as a stranger", dir).CombinedOutput()
	want := []string{"d/a/object false", "d/b/object true", "d/deep/hidden/ true", "d/deep/object false", "d/hidden/ true", "d/listed/ true", "d/z/object false"}
	if got := slices.Sorted(strings.SplitSeq(strings.TrimSpace(string(out)), "\n")); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, shown and denied:\n%s", err, out)
	}
	if err := os.Chmod(dir+"/d", 0); err != nil {
		t.Fatal(err)
	}
	out, err = childCommand(t, "walk as a stranger", dir).CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "unavailable=true: ") {
		t.Errorf("below a prefix that may not be read: %v, %s", err, out)
	}
}

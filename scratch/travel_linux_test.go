package scratch_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/scratch"
)

// checkpointOf opens the checkpoint of a job, in a root of its own.
func checkpointOf(t *testing.T) *scratch.Checkpoint {
	t.Helper()
	root, err := scratch.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c, err := root.Checkpoint("job-1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestG77ACheckpointIsTheSameElsewhere(t *testing.T) {
	here, there := checkpointOf(t), checkpointOf(t)
	for name, text := range map[string]string{"a": "x", "sub/b": strings.Repeat("y", 100_000), ".part": "half", "sub/.c": "half"} {
		name = filepath.Join(here.Dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("/etc/passwd", filepath.Join(here.Dir, "link")), os.WriteFile(filepath.Join(there.Dir, "old"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	if err := here.Pack(&packed); err != nil {
		t.Fatal(err)
	}
	if err := there.Restore(&packed); err != nil {
		t.Fatal(err)
	}
	var names []string
	err := filepath.WalkDir(there.Dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, there.Dir))
		}
		return err
	})
	if got := strings.Join(names, " "); err != nil || got != "/a /sub/b" {
		t.Errorf("it has %q (%v), want the two files", got, err)
	}
	if _, size, err := there.State(); err != nil || size != 100_001 {
		t.Errorf("it has %d bytes (%v)", size, err)
	}
}

func TestG77AHostileArchiveLeavesAnEmptyCheckpoint(t *testing.T) {
	for name, head := range map[string]tar.Header{
		"above":    {Name: "../x", Typeflag: tar.TypeReg},
		"absolute": {Name: "/tmp/x", Typeflag: tar.TypeReg},
		"a link":   {Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		"a device": {Name: "x", Typeflag: tar.TypeChar},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			err := w.WriteHeader(&tar.Header{Name: "good", Typeflag: tar.TypeReg})
			if err = errors.Join(err, w.WriteHeader(&head), w.Close()); err != nil {
				t.Fatal(err)
			}
			c := checkpointOf(t)
			if err := c.Restore(&b); err == nil || errors.Is(err, jobs.ErrUnavailable) {
				t.Errorf("it is taken, or not the archive's fault: %v", err)
			}
			if left, err := os.ReadDir(c.Dir); err != nil || len(left) > 0 {
				t.Errorf("it has left %v (%v)", left, err)
			}
		})
	}
}

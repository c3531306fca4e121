package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/internal/testlog"
)

// No entry is a file: a journal has one for all of them, and grows by so many bytes as they have.
func TestK18EntriesShareAFile(t *testing.T) {
	t.Parallel()
	b, _ := open(t, filepath.Join(t.TempDir(), "box"))
	var puts sync.WaitGroup
	for i := range 100 {
		puts.Go(func() {
			if err := b.Put(fmt.Sprint(i), []byte("1")); err != nil {
				t.Error(err)
			}
		})
	}
	puts.Wait()
	files := names(t, b, "journal")
	if len(files) != 2 || files[0] != "LOCK" || !strings.HasPrefix(files[1], "segment.") {
		t.Errorf("there are %q", files)
	}
}

// What is gone does not stay on the disk, and a checkpoint loses nothing.
func TestJournalOfEntriesStaysSmall(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "box")
	b := newBox(dir, &testlog.Buffer{})
	b.MaxEntry = 1 << 20
	if err := b.Open(); err != nil {
		t.Fatal(err)
	}
	stop := run(t, b)
	text := strings.Repeat("x", 1<<18)
	if err := b.Put("kept", []byte("1")); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := b.Put("gone", []byte(text)); err != nil {
			t.Fatal(err)
		}
		b.Remove("gone")
	}
	stop()
	if err := errors.Join(b.checkpoint(), b.Close()); err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, name := range names(t, b, "journal") {
		info, err := os.Stat(filepath.Join(dir, "journal", name))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 1<<10 {
		t.Errorf("one entry of a byte takes %d bytes", size)
	}
	b, _ = open(t, dir)
	want(t, "entries", slices.Sorted(maps.Keys(b.entries)), "kept")
}

// While it runs, a box writes a checkpoint as soon as much has gathered.
func TestCheckpointsAreWrittenWhileItRuns(t *testing.T) {
	t.Parallel()
	b, _ := open(t, filepath.Join(t.TempDir(), "box"))
	stop := run(t, b)
	defer stop()
	text := make([]byte, 1<<20)
	for range 1000 {
		if err := b.Put("a", text); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(names(t, b, "journal"), func(name string) bool {
			return strings.HasPrefix(name, "checkpoint.") && !strings.HasSuffix(name, ".tmp")
		}) {
			return
		}
	}
	t.Error("there is no checkpoint after a gibibyte of entries")
}

// run runs a box until stop is called.
func run(t *testing.T, b *Box) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

func FuzzParseRecord(f *testing.F) {
	for _, r := range [][]byte{nil, putRecord("a", []byte("1")), removeRecord("a"), putRecord("", nil), putRecord("../x", nil), putRecord("a/b", nil), {'p', 9, 'a'}, {'x', 1, 'a'}} {
		f.Add(r)
	}
	f.Fuzz(func(t *testing.T, r []byte) {
		name, text, put, err := parseRecord(r)
		switch {
		case err != nil:
		case name == "" || name != filepath.Base(name):
			t.Errorf("a name is %q", name)
		case put && string(putRecord(name, text)) != string(r):
			t.Errorf("%q is not %q", putRecord(name, text), r)
		}
	})
}

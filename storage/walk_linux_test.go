package storage_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

func TestJWalkShowsOnlyObjects(t *testing.T) {
	s, dir := newLocal(t)
	outside := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(outside+"/secret", []byte("secret"), 0o600))
	storagetest.PutString(t, s, "results/a/result.json", "x")
	storagetest.PutString(t, s, "uploads/a.pdf", "x")
	for link, target := range map[string]string{
		"results/file": outside + "/secret", "results/dir": outside, "results/up": "..", "results/loop": ".", "results/self": "self",
		"results/inside": "../uploads", "results/alias.json": "a/result.json", "linked": "results",
	} {
		must(os.Symlink(target, filepath.Join(dir, link)))
	}
	for _, odd := range []string{
		".batchfleet-put-X", "new\nline", "back\\slash", "bell\a", "\xff\xfe", "x/.batchfleet-put-DIR/object", "x/tab\tdir/object", "empty/dir/",
	} {
		path := filepath.Join(dir, "results", odd)
		must(os.MkdirAll(filepath.Dir(path), 0o700))
		if strings.HasSuffix(odd, "/") {
			must(os.MkdirAll(path, 0o700))
			continue
		}
		must(os.WriteFile(path, []byte("x"), 0o600))
	}
	must(unix.Mkfifo(dir+"/results/fifo", 0o600))
	if got := namesBelow(t, s, "results/"); !slices.Equal(got, []string{"results/a/result.json"}) {
		t.Errorf("shown %q", got)
	}
	for _, prefix := range []string{"linked/", "results/inside/", "results/up/", "results/dir/", "results/loop/a/"} {
		if got := namesBelow(t, s, prefix); got != nil {
			t.Errorf("through a link, %s shows %q", prefix, got)
		}
	}
}

func TestJWalkOfADirectoryThatIsGoneIsUnavailable(t *testing.T) {
	s, dir := newLocal(t)
	storagetest.PutString(t, s, "results/a/x", "x")
	storagetest.PutString(t, s, "results/b/x", "x")
	shown := 0
	err := s.Walk(t.Context(), "results/", func(string, storage.Info, error) error {
		shown++
		return os.RemoveAll(dir)
	})
	if !errors.Is(err, jobs.ErrUnavailable) || shown != 1 {
		t.Errorf("Walk = %v after %d objects, want jobs.ErrUnavailable after 1: the rest was not seen", err, shown)
	}
	if err := s.Walk(t.Context(), "", func(string, storage.Info, error) error { return nil }); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("Walk = %v, want jobs.ErrUnavailable", err)
	}
}

// A directory of very many results is not read into memory first.
func TestJWalkHoldsFewEntries(t *testing.T) {
	testrun.Long(t, "it takes much CPU")
	s, dir := newLocal(t)
	const n = 50_000
	if err := os.Mkdir(dir+"/results", 0o700); err != nil {
		t.Fatal(err)
	}
	first := ""
	for i := range n {
		// A link to one file costs little to make; a walk cannot tell it from others.
		name := filepath.Join(dir, "results", "a-name-of-usual-length-for-a-job-such-as-a-uuid-"+string(rune('a'+i%26))+strings.Repeat("x", i%50)+"-"+strconv.Itoa(i))
		var err error
		if i%20_000 == 0 {
			err = os.WriteFile(name, nil, 0o600)
			first = name
		} else {
			err = os.Link(first, name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	shown := 0
	runtime.GC()
	runtime.ReadMemStats(&before)
	err := s.Walk(t.Context(), "results/", func(string, storage.Info, error) error {
		if shown++; shown == n/2 {
			runtime.GC()
			runtime.ReadMemStats(&after)
		}
		return nil
	})
	if err != nil || shown != n {
		t.Errorf("Walk = %v after %d objects", err, shown)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("in the middle of %d objects the heap has grown by %d bytes", n, grown)
	}
}

func TestJWalkLeavesNoDirectoryOpen(t *testing.T) {
	s, _ := newLocal(t)
	for i := range 40 {
		storagetest.PutString(t, s, "a/b/c/"+strconv.Itoa(i)+"/x", "x")
	}
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before, most := open(), 0
	for range 10 {
		if err := s.Walk(t.Context(), "a/b/c/", func(string, storage.Info, error) error { most = max(most, open()); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	// Each directory on the way down is open once to go on from, and once to be read.
	if after := open(); after > before || most > before+8 {
		t.Errorf("%d files are open after the walks, %d before, and %d at most in between", after, before, most)
	}
}

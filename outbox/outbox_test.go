package outbox

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/retry"
)

// newBox returns a box that is not open.
func newBox(dir string, log *testlog.Buffer) *Box {
	return &Box{
		Dir: dir, Files: "files", Aside: []string{"dead"}, MaxEntry: 100, KeepFor: 7 * 24 * time.Hour,
		Sender: Sender{
			Uploads: 2, Retry: retry.Policy{First: time.Second, Max: 90 * time.Second}, FinalTimeout: 5 * time.Second,
			Log: slog.New(slog.NewTextHandler(log, nil)),
		},
	}
}

func open(t *testing.T, dir string) (*Box, *testlog.Buffer) {
	t.Helper()
	log := &testlog.Buffer{}
	b := newBox(dir, log)
	if err := b.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() }) // a test may have closed it
	return b, log
}

// load returns the entries of a box. One that says "bad" is refused.
func load(t *testing.T, b *Box) []string {
	t.Helper()
	var all []string
	err := b.Load(t.Context(), func(name string, text []byte) error {
		if string(text) == "bad" {
			return errors.New("it says bad")
		}
		all = append(all, name+"="+string(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func names(t *testing.T, b *Box, sub string) (all []string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(b.Dir, sub))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		all = append(all, f.Name())
	}
	return all
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestEntriesAreReadBackByTheNextProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "box")
	b, _ := open(t, dir)
	if err := errors.Join(b.Put("a", []byte("1")), b.Put("b", []byte("2")), b.Put("a", []byte("3")), b.Put("c", nil)); err != nil {
		t.Fatal(err)
	}
	b.Remove("c")
	b.Remove("none")
	if path, err := b.KeepAside("dead", "x", []byte("why")); err != nil || path != filepath.Join(dir, "dead", "x") {
		t.Errorf("kept at %s, %v", path, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b, _ = open(t, dir)
	want(t, "entries", load(t, b), "a=3", "b=2")
	want(t, "kept aside", names(t, b, "dead"), "x")
}

func TestOneProcessAtATime(t *testing.T) {
	b, _ := open(t, t.TempDir())
	second := newBox(b.Dir, &testlog.Buffer{})
	if err := second.Open(); !errors.Is(err, ErrInUse) {
		t.Errorf("a second box: %v", err)
	}
	if err := errors.Join(b.Close(), second.Open(), second.Close()); err != nil {
		t.Errorf("after the first was closed: %v", err)
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	b, _ := open(t, filepath.Join(t.TempDir(), "box"))
	if err := b.Put("a", nil); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{".": 0o700, "lock": 0o600, "journal": 0o700, "dead": 0o700, "corrupt": 0o700, "journal/LOCK": 0o600} {
		if info, err := os.Stat(filepath.Join(b.Dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want %v", name, info, err, mode)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{".", "journal", "dead"} {
		path := filepath.Join(b.Dir, sub)
		if err := os.Chmod(path, 0o777); err != nil { //nolint:gosec // that is what is refused
			t.Fatal(err)
		}
		if err := newBox(b.Dir, &testlog.Buffer{}).Open(); err == nil || !strings.Contains(err.Error(), "chmod 700") {
			t.Errorf("%s that others may write: %v", sub, err)
		}
		if err := os.Chmod(path, 0o700); err != nil { //nolint:gosec // a directory needs the x
			t.Fatal(err)
		}
	}
}

func TestCorruptEntriesAreSetAside(t *testing.T) {
	b, log := open(t, t.TempDir())
	if err := errors.Join(
		b.Put("good", []byte("1")), b.Put("refused", []byte("bad")), b.Put("long", make([]byte, 101)), b.Put("stuck", []byte("bad")),
		os.Mkdir(filepath.Join(b.Dir, "corrupt", "stuck"), 0o700), b.Close(), b.Open(),
	); err != nil {
		t.Fatal(err)
	}
	want(t, "entries", load(t, b), "good=1")
	if err := errors.Join(b.Close(), b.Open()); err != nil {
		t.Fatal(err)
	}
	want(t, "what is left of them", slices.Sorted(maps.Keys(b.entries)), "good", "stuck")
	want(t, "set aside", names(t, b, "corrupt"), "long", "refused", "stuck")
	for _, text := range []string{"it says bad", "longer than 100 bytes", "leaving it where it is"} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log lacks %q:\n%s", text, log)
		}
	}
}

// An earlier version had a file for each entry.
func TestFilesOfAnEarlierVersionBecomeEntries(t *testing.T) {
	dir := t.TempDir()
	b := newBox(dir, &testlog.Buffer{})
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) error { return os.WriteFile(at(name), []byte(text), 0o600) }
	if err := errors.Join(
		os.Mkdir(at("files"), 0o700), os.Mkdir(at("corrupt"), 0o700),
		write("files/a", "1"), write("files/b", "2"), write("files/long", strings.Repeat("x", 101)), write("files/.batchfleet-tmp-x", "unfinished"),
		os.Mkdir(at("files/dir"), 0o700), os.Symlink("a", at("files/link")),
		// One that cannot be moved stays, and the others are read all the same.
		os.Mkdir(at("files/stuck"), 0o700), write("corrupt/stuck", ""),
		b.Open(),
	); err != nil {
		t.Fatal(err)
	}
	want(t, "entries", load(t, b), "a=1", "b=2")
	want(t, "left", names(t, b, "files"), "stuck")
	want(t, "set aside", names(t, b, "corrupt"), "dir", "link", "long", "stuck")
	b.Remove("a")
	if err := errors.Join(b.Close(), os.Remove(at("files/stuck")), b.Open()); err != nil {
		t.Fatal(err)
	}
	want(t, "entries in the next process", load(t, b), "b=2")
	if _, err := os.Stat(at("files")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of files is left: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestTooManyEntriesAreNotRead(t *testing.T) {
	b, _ := open(t, t.TempDir())
	for i := range maxEntries + 1 {
		b.entries[fmt.Sprint(i)] = nil
	}
	if err := b.Load(t.Context(), func(string, []byte) error { return nil }); err == nil || !strings.Contains(err.Error(), "at most 10000") {
		t.Errorf("got %v", err)
	}
	if err := os.Mkdir(filepath.Join(b.Dir, "files"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range maxEntries + 1 {
		if err := os.WriteFile(filepath.Join(b.Dir, "files", fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Load(t.Context(), func(string, []byte) error { return nil }); err == nil || !strings.Contains(err.Error(), "10001 files") {
		t.Errorf("got %v", err)
	}
}

// A directory that was moved away cannot be written, also by root, whom no file mode stops.
func TestUnwritableDirectoryIsNoticed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b, _ := open(t, dir)
		entries := filepath.Join(dir, "journal")
		if err := errors.Join(b.Check(), b.Put("a", []byte("1")), b.Check(), os.Rename(entries, entries+"-away")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(writtenLately)
		if b.Check() == nil || b.Put("a", []byte("2")) == nil || b.Put("b", []byte("3")) == nil ||
			b.PutUnsynced(Entry{"a", []byte("4")}, Entry{"c", []byte("5")}) == nil || b.Check() == nil {
			t.Error("nothing was noticed")
		}
		if err := os.Rename(entries+"-away", entries); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := b.Check(); err != nil {
			t.Error(err)
		}
		want(t, "entries", load(t, b), "a=1")
		if err := errors.Join(b.Close(), b.Open()); err != nil {
			t.Fatal(err)
		}
		want(t, "entries in the next process", load(t, b), "a=1")
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestChecksDoNotDisturbEachOther(t *testing.T) {
	b, _ := open(t, t.TempDir())
	var checks sync.WaitGroup
	for range 4 {
		checks.Go(func() {
			for range 200 {
				if err := b.Check(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	checks.Wait()
	want(t, "left behind", names(t, b, "journal"), "LOCK")
}

func TestWhatIsKeptAsideIsSwept(t *testing.T) {
	b, log := open(t, t.TempDir())
	made := func(sub, name string, size int64, age time.Duration) {
		t.Helper()
		path := filepath.Join(b.Dir, sub, name)
		at := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	week := 7 * 24 * time.Hour
	made("journal", "old", 1, 2*week)
	made("dead", "old", 1, week+time.Hour)
	made("dead", "young", 1, week-time.Hour)
	made("corrupt", "large", maxAsideBytes+1, time.Minute) // the newest is kept, however large
	made("corrupt", "beyond", 1, time.Hour)
	b.sweep(t.Context())
	want(t, "journal", names(t, b, "journal"), "LOCK", "old")
	want(t, "kept aside", names(t, b, "dead"), "young")
	want(t, "corrupt", names(t, b, "corrupt"), "large")
	for i := range maxAside + 1 {
		made("dead", fmt.Sprint(i), 0, time.Duration(i)*time.Second)
	}
	b.sweep(t.Context())
	if all := names(t, b, "dead"); len(all) != maxAside || slices.Contains(all, "young") || slices.Contains(all, fmt.Sprint(maxAside)) {
		t.Errorf("%d are kept", len(all))
	}
	for _, why := range []string{"older than", "more than 1000", "more than 1073741824 bytes"} {
		if !strings.Contains(log.String(), why) {
			t.Errorf("the log lacks %q", why)
		}
	}
}

func TestNamesThatCannotBeFilesAreRefused(t *testing.T) {
	b, _ := open(t, t.TempDir())
	for _, name := range []string{"", ".", "..", "a/b", "../a", "/a", strings.Repeat("x", maxName+1)} {
		if err := b.Put(name, nil); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
	want(t, "entries", load(t, b))
}

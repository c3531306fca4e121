package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

func TestK12AttemptHasEmptyDirectoriesOfItsOwn(t *testing.T) {
	r := open(t, t.TempDir())
	first, second := attempt(t, r, 1), attempt(t, r, 1) // the first is one that was given up and goes on
	seen := map[string]bool{}
	for _, d := range []*Dir{first, second} {
		for _, dir := range d.dirs() {
			info, err := os.Lstat(dir)
			if err != nil || info.Mode() != fs.ModeDir|0o700 || seen[dir] {
				t.Errorf("%s: %v, %v, again: %v", dir, info, err, seen[dir])
			}
			seen[dir] = true
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("%s has %v, %v", dir, entries, err)
			}
		}
		wantGone(t, d.Params)
		if err := os.WriteFile(d.Params, []byte("{}"), 0o600); err != nil {
			t.Error(err)
		}
	}
	first.Remove()
	wantGone(t, first.path)
	wantThere(t, second.Params)
	second.Remove()
	wantGone(t, second.path)
}

func TestK12EmptyDirectoriesAreUsedAgainOnlyIfTheyAreAsTheyWereMade(t *testing.T) {
	at := func(d *Dir, name string) string { return filepath.Join(d.path, name) }
	for _, tt := range []struct {
		name  string
		spoil func(d *Dir) error
		again bool
	}{
		{"untouched", func(*Dir) error { return nil }, true},
		{"with its parameters", func(d *Dir) error { return d.WriteParams([]byte(`{"much": "longer"}`)) }, true},
		{"a file in one", func(d *Dir) error { return os.WriteFile(at(d, "output/.f"), nil, 0o600) }, false},
		{"a file beside them", func(d *Dir) error { return os.WriteFile(at(d, "x"), nil, 0o600) }, false},
		{"a file beside them, in place of one", func(d *Dir) error { return os.Rename(d.Work, at(d, "x")) }, false},
		{"another mode", func(d *Dir) error { return os.Chmod(d.Work, 0o500) }, false},
		{"a sticky one", func(d *Dir) error { return os.Chmod(d.Work, fs.ModeSticky|0o700) }, false},
		{"another mode of what holds them", func(d *Dir) error { return os.Chmod(d.path, 0o777) }, false},
		{"one that was made by the program", func(d *Dir) error {
			return errors.Join(os.Rename(d.Work, at(d, "x")), os.Mkdir(d.Work, 0o700), os.Remove(at(d, "x")))
		}, false},
		{"a link", func(d *Dir) error { return errors.Join(os.Remove(d.Work), os.Symlink(".", d.Work)) }, false},
		{"parameters with another name", func(d *Dir) error {
			return errors.Join(os.WriteFile(d.Params, nil, 0o600), os.Link(d.Params, filepath.Join(d.root.dir, "trash", "x")))
		}, false},
		{"parameters that are a link", func(d *Dir) error { return os.Symlink("/etc/passwd", d.Params) }, false},
		{"an attribute", func(d *Dir) error {
			err := unix.Setxattr(d.Work, "user.x", []byte("y"), 0)
			if errors.Is(err, unix.ENOTSUP) {
				return os.Remove(d.Work)
			}
			return err
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := open(t, t.TempDir())
			first := attempt(t, r, 1)
			first.path = strings.Clone(first.path)
			if err := tt.spoil(first); err != nil {
				t.Fatal(err)
			}
			first.Remove()
			wantGone(t, first.path)
			if again := len(r.idleDirs.all) == 1; again != tt.again {
				t.Errorf("used again: %v, want %v", again, tt.again)
			}
			second := attempt(t, r, 2)
			wantGone(t, second.Params)
			if !second.asMade() {
				t.Error("the directories of the next attempt are not as they are made")
			}
			if err := second.WriteParams([]byte("{}")); err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(second.Params); err != nil || string(text) != "{}" {
				t.Errorf("the parameters are %s, %v", text, err)
			}
			if !tt.again {
				return
			}
			// A process that was not found writes to them while nobody has them.
			second.Remove()
			if err := os.WriteFile(filepath.Join(r.idleDirs.all[0].Output, "late"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if third := attempt(t, r, 3); !third.asMade() {
				t.Error("the next attempt has what was written late")
			}
		})
	}
}

func TestK12JobIDThatIsNoNameIsRefused(t *testing.T) {
	r := open(t, t.TempDir())
	if _, err := r.Attempt("../x", 1); err == nil {
		t.Error("Attempt took ../x")
	}
	if _, err := r.Checkpoint("../x"); err == nil {
		t.Error("Checkpoint took ../x")
	}
}

// mess puts into a directory what a careless or a bad program leaves there.
var messes = []struct {
	name string
	make func(t *testing.T, dir string) error
}{
	{"nothing", func(*testing.T, string) error { return nil }},
	{"files", func(t *testing.T, dir string) error {
		n := 100_000
		if testing.Short() {
			n = 1000
		}
		for i := range n {
			if err := unix.Mknod(filepath.Join(dir, fmt.Sprint(i)), unix.S_IFREG|0o600, 0); err != nil {
				return err
			}
		}
		return nil
	}},
	{"closed directories", func(_ *testing.T, dir string) error {
		inner := filepath.Join(dir, "a", "b", "c")
		return errors.Join(os.MkdirAll(inner, 0o700), os.WriteFile(filepath.Join(inner, "f"), nil, 0), os.WriteFile(filepath.Join(dir, "a", "f"), nil, 0),
			os.Chmod(inner, 0), os.Chmod(filepath.Dir(inner), 0), os.Chmod(filepath.Join(dir, "a"), 0), os.Chmod(dir, 0))
	}},
	{"read-only trees", func(_ *testing.T, dir string) error {
		inner := filepath.Join(dir, "a", "b")
		return errors.Join(os.MkdirAll(inner, 0o700), os.WriteFile(filepath.Join(inner, "f"), nil, 0o400),
			os.Chmod(inner, 0o500), os.Chmod(filepath.Join(dir, "a"), 0o500), os.Chmod(dir, 0o500))
	}},
	{"names", func(_ *testing.T, dir string) error {
		var err error
		for _, name := range []string{"new\nline", "-rf", "*", " ", "\xff\xfe", "a\\b", "$HOME", strings.Repeat("x", 255), "batchfleet-deep-1"} {
			err = errors.Join(err, os.Mkdir(filepath.Join(dir, name), 0o700), os.WriteFile(filepath.Join(dir, name, name), nil, 0o600))
		}
		return err
	}},
	{"sorts of files", func(t *testing.T, dir string) error {
		t.Chdir(dir)
		socket, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", "socket")
		if err == nil {
			socket.(*net.UnixListener).SetUnlinkOnClose(false)
			err = socket.Close()
		}
		return errors.Join(err, syscall.Mkfifo("pipe", 0o600), os.WriteFile("sticky", nil, 0o600), os.Chmod("sticky", fs.ModeSticky|fs.ModeSetuid))
	}},
	{"a deep tree", func(t *testing.T, dir string) error { deep(t, dir, 5000); return nil }},
	{"a deep tree that is read-only half-way", func(t *testing.T, dir string) error {
		below := filepath.Join(dir, strings.Repeat("d/", 2*maxDepth))
		deep(t, dir, 4*maxDepth)
		return errors.Join(os.Chmod(filepath.Dir(below), 0o500), os.Chmod(filepath.Join(dir, strings.Repeat("d/", maxDepth+2)), 0), os.Chmod(filepath.Join(dir, strings.Repeat("d/", maxDepth+1)), 0), os.Chmod(dir, 0o500))
	}},
}

func TestK12WhateverAProgramLeavesIsDeleted(t *testing.T) {
	testrun.Long(t, "it makes many files")
	for _, tt := range messes {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(forNobody(t), "tree")
			if err := errors.Join(os.Mkdir(dir, 0o700), tt.make(t, dir)); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(tt.name, "deep") { // which is given already
				give(t, dir)
			} else if os.Getuid() == 0 {
				if err := os.Chown(dir, nobody, nobody); err != nil {
					t.Fatal(err)
				}
			}
			said(t, "remove", dir)
			wantGone(t, dir)
		})
	}
}

// A program may put a link where a directory was, right after it was looked at.
func TestK12LinkInPlaceOfADirectoryIsNotOpened(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if f, err := openDir(unix.AT_FDCWD, link); err == nil {
		closeFile(f)
		t.Error("it was opened to be emptied")
	}
	if err := chmodDir(unix.AT_FDCWD, link); err == nil {
		t.Error("the mode of what it leads to was changed")
	}
	if _, err := Measure(link); err == nil {
		t.Error("it was measured")
	}
	if _, _, ok := Inspect(link); ok {
		t.Error("it is taken for a directory")
	}
}

// Where links lead, nothing is deleted and no mode changes.
func TestK12LinksThatAProgramLeavesAreNotFollowed(t *testing.T) {
	r := open(t, t.TempDir())
	victim := t.TempDir()
	precious := filepath.Join(victim, "precious")
	if err := errors.Join(os.WriteFile(precious, []byte("x"), 0o400), os.Chmod(victim, 0o500)); err != nil {
		t.Fatal(err)
	}
	d := attempt(t, r, 1)
	c, err := r.Checkpoint("job-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{d.Work, d.Output, c.Dir} {
		if err := errors.Join(os.Remove(dir), os.Symlink(victim, dir)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(victim, filepath.Join(d.Input, "link")), os.Symlink(precious, d.Params)); err != nil {
		t.Fatal(err)
	}
	if u, err := d.Usage(); err != nil || u.Files != 5 || u.Apparent > 4096 {
		t.Errorf("Usage = %+v, %v, want the links and the directory that is left", u, err)
	}
	d.Remove()
	c.Close()
	again, err := r.Checkpoint("job-1")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(again.Dir); err != nil || !info.IsDir() {
		t.Errorf("the checkpoint is %v, %v", info, err)
	}
	if err := errors.Join(os.RemoveAll(again.Dir), os.Symlink(victim, again.Dir), again.Delete()); err != nil {
		t.Error(err)
	}
	// Links in the place of what a sweep goes through.
	for _, sub := range []string{"workers", "checkpoints", "trash"} {
		if err := os.Symlink(victim, filepath.Join(r.dir, sub, "planted")); err != nil {
			t.Fatal(err)
		}
	}
	r.Sweep()
	wantThere(t, precious)
	if info, err := os.Stat(victim); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("where the links lead: %v, %v", info, err)
	}
	wantGone(t, filepath.Join(r.dir, "workers", "planted"))
	wantGone(t, d.path)
	_ = os.Chmod(victim, 0o700) //nolint:gosec // so that it can be deleted
}

func TestK12PlantedRootIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		plant      func(scratch string) error
	}{
		{"a link", "not a directory", func(path string) error { return os.Symlink(t.TempDir(), path) }},
		{"a file", "not a directory", func(path string) error { return os.WriteFile(path, nil, 0o600) }},
		{"a directory that others may change", "others could change", func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o777)) //nolint:gosec // this is the point
		}},
		{"a link below it", "not a directory", func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.Symlink(t.TempDir(), filepath.Join(path, "workers")))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := tt.plant(filepath.Join(dir, "batchfleet-scratch")); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestK12RootOfAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make directories of other users")
	}
	dir := forNobody(t)
	root := filepath.Join(dir, "batchfleet-scratch")
	if err := errors.Join(os.Mkdir(root, 0o700), os.Chown(root, 12345, 12345), os.Chmod(root, 0o755)); err != nil { //nolint:gosec // so that it is not refused for its mode
		t.Fatal(err)
	}
	if _, err := Open(dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("Open = %v", err)
	}
	out, err := child(t, "open", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "take another WORK_DIR") {
		t.Errorf("nobody's Open = %s, %v", out, err)
	}
}

func TestK12WhatAKilledWorkerLeavesIsDeletedByTheNext(t *testing.T) {
	testrun.Long(t, "it starts processes")
	dir := t.TempDir()
	r := open(t, dir)
	d := attempt(t, r, 1)
	work := killedWorker(t, dir, func(work string) {
		r.Sweep()
		wantThere(t, work)
		_ = open(t, dir)
		wantThere(t, work) // of a worker that lives
		if _, err := r.Checkpoint("job-1"); !errors.Is(err, ErrInUse) {
			t.Errorf("the checkpoint that it uses: %v, want %v", err, ErrInUse)
		}
	})
	wantThere(t, work)
	_ = open(t, dir)
	wantGone(t, filepath.Dir(filepath.Dir(work)))
	wantThere(t, d.Work)
	c, err := r.Checkpoint("job-1")
	if err != nil {
		t.Fatalf("the checkpoint of a dead worker: %v", err)
	}
	c.Close()
}

func TestK12DirectoryThatIsBeingWrittenToIsDeletedInTheEnd(t *testing.T) {
	r := open(t, t.TempDir())
	d := attempt(t, r, 1)
	at, err := unix.Open(d.Output, openDirFlags, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(at) }()
	var stop atomic.Bool
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := 0; i < 20_000 && !stop.Load(); i++ { // a test that is killed must not leave too much
				name := fmt.Sprint(w, "-", i)
				if i%2 == 0 {
					_ = unix.Mkdirat(at, name, 0o700) // fails when the directory is gone
				} else if f, err := unix.Openat(at, name, unix.O_CREAT|unix.O_WRONLY, 0o600); err == nil {
					_ = unix.Close(f)
				}
			}
		})
	}
	r.patience = 100 * time.Millisecond
	d.Remove()
	wantGone(t, d.path) // deleted, or moved away
	r.Sweep()
	stop.Store(true)
	writers.Wait()
	r.patience = time.Hour
	r.Sweep()
	if left := r.entries("trash"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// What belongs to another user stands for all that cannot be deleted.
func TestK12WhatCannotBeDeletedIsMovedAsideAndTriedAgain(t *testing.T) {
	r := open(t, t.TempDir())
	d := attempt(t, r, 1)
	mounted := filepath.Join(d.Work, "mounted")
	if err := os.Mkdir(mounted, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", mounted, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	other := filepath.Join(d.Work, "file")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Remove()
	wantGone(t, d.path)
	aside := r.entries("trash")
	if len(aside) != 1 {
		t.Fatalf("aside is %v", aside)
	}
	wantGone(t, filepath.Join(aside[0], "work", "file"))
	if err := unix.Unmount(filepath.Join(aside[0], "work", "mounted"), unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	r.Sweep()
	wantGone(t, aside[0])
}

func TestDirectoryOfAWorkerThatSomethingHasDeletedIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	d := attempt(t, r, 1)
	_ = open(t, dir) // which sweeps
	wantThere(t, d.Work)
	if c, err := r.Checkpoint("job-1"); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
}

func TestK11CheckpointSurvivesAttemptsAndWorkers(t *testing.T) {
	dir := t.TempDir()
	r, other := open(t, dir), open(t, dir)
	checkpoint := func(r *Root) *Checkpoint {
		c, err := r.Checkpoint("job-1")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := checkpoint(r)
	if err := os.WriteFile(filepath.Join(c.Dir, "step"), []byte("7"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Root{r, other} {
		if _, err := r.Checkpoint("job-1"); !errors.Is(err, ErrInUse) {
			t.Errorf("a second attempt at once: %v, want %v", err, ErrInUse)
		}
	}
	if u, err := c.Usage(); err != nil || u.Apparent != 1 || u.Files != 1 {
		t.Errorf("Usage = %+v, %v", u, err)
	}
	if err := os.Chmod(c.Dir, 0); err != nil {
		t.Fatal(err)
	}
	c.Close()
	c = checkpoint(other)
	if text, err := os.ReadFile(filepath.Join(c.Dir, "step")); err != nil || string(text) != "7" {
		t.Errorf("the next attempt finds %q, %v", text, err)
	}
	if info, err := os.Lstat(c.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("it is %v, %v", info, err)
	}
	if err := c.Delete(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, c.path)
	c = checkpoint(r)
	if entries, err := os.ReadDir(c.Dir); err != nil || len(entries) > 0 {
		t.Errorf("after the end of the job it has %v, %v", entries, err)
	}
	c.Close()
}

func TestK11CheckpointIsDeletedAfterAWeekWithoutUse(t *testing.T) {
	r := open(t, t.TempDir())
	for _, tt := range []struct {
		name string
		age  time.Duration
		used bool
		want bool // it stays
	}{
		{"old", 8 * 24 * time.Hour, false, false},
		{"old-but-used", 8 * 24 * time.Hour, true, true},
		{"young", 6 * 24 * time.Hour, false, true},
	} {
		c, err := r.Checkpoint("job-1")
		if err != nil {
			t.Fatal(err)
		}
		if !tt.used {
			c.Close()
		}
		then := time.Now().Add(-tt.age)
		if err := os.Chtimes(filepath.Join(c.path, lockName), then, then); err != nil {
			t.Fatal(err)
		}
		r.Sweep()
		if _, err := os.Lstat(c.Dir); (err == nil) != tt.want {
			t.Errorf("%s: %v, want it to stay: %v", tt.name, err, tt.want)
		}
		if tt.used {
			c.Close()
		}
	}
}

// Attempts take a checkpoint, leave and delete it, and sweeps come by: never have two of them one.
func TestK11CheckpointHasOneAttemptAtATime(t *testing.T) {
	dir := t.TempDir()
	var attempts sync.WaitGroup
	var inside, taken atomic.Int64
	for range 4 {
		r := open(t, dir)
		r.log = slog.New(slog.DiscardHandler)
		attempts.Go(func() {
			for i := 0; i < 100; {
				c, err := r.Checkpoint("job-1")
				if errors.Is(err, ErrInUse) {
					runtime.Gosched()
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two at once")
				}
				taken.Add(1)
				if i++; i%3 == 0 {
					then := time.Now().Add(-8 * 24 * time.Hour)
					_ = os.Chtimes(filepath.Join(c.path, lockName), then, then)
				}
				inside.Add(-1)
				switch i % 3 {
				case 0:
					closeFile(c.lock) // an old one
					r.Sweep()
				case 1:
					if err := c.Delete(); err != nil {
						t.Error(err)
					}
				case 2:
					c.Close()
				}
			}
		})
	}
	attempts.Wait()
	if taken.Load() != 4*100 {
		t.Errorf("taken %d times", taken.Load())
	}
}

func TestK12UsageCountsWhatIsOnTheDisk(t *testing.T) {
	r := open(t, t.TempDir())
	d := attempt(t, r, 1)
	before, err := d.Usage()
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(d.Work, name) }
	elsewhere := filepath.Join(t.TempDir(), "big")
	if err := errors.Join(os.WriteFile(elsewhere, make([]byte, 5<<20), 0o600), os.Symlink(elsewhere, at("tofile"))); err != nil {
		t.Fatal(err)
	}
	sparse, err := os.Create(at("sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sparse.Truncate(100<<30), sparse.Close(), os.WriteFile(at("full"), make([]byte, 1<<20), 0o600), os.Link(at("full"), at("again")),
		os.Symlink(os.TempDir(), at("link")), os.Mkdir(at("new\nline"), 0o700), os.WriteFile(at("new\nline/f"), make([]byte, 1<<20), 0o600)); err != nil {
		t.Fatal(err)
	}
	u, err := d.Usage()
	bytes, apparent, files := u.Bytes-before.Bytes, u.Apparent-before.Apparent, u.Files-before.Files
	if err != nil || apparent != 100<<30+2<<20 || files != 6 || bytes < 2<<20 || bytes > 2<<20+64<<10 {
		t.Errorf("it has grown by %d bytes (%d apparent), %d files, %v", bytes, apparent, files, err)
	}
}

func TestK12UsageSeesWhatIsDeeperThanAPathMayBeLong(t *testing.T) {
	testrun.Long(t, "it makes many directories")
	dir := forNobody(t)
	deep(t, dir, 5000)
	if got := said(t, "measure", dir); !strings.Contains(got, "Apparent:4096 Files:5001} <nil>") {
		t.Errorf("measured %s", got)
	}
	said(t, "remove", filepath.Join(dir, "d"))
}

func TestK12UsageTellsWhatItCannotSee(t *testing.T) {
	dir := forNobody(t)
	closed := filepath.Join(dir, "closed")
	if err := errors.Join(os.Mkdir(closed, 0o700), os.WriteFile(filepath.Join(closed, "f"), make([]byte, 100), 0o600), os.WriteFile(filepath.Join(dir, "f"), make([]byte, 10), 0o600)); err != nil {
		t.Fatal(err)
	}
	give(t, dir)
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	if got := said(t, "measure", dir); !strings.Contains(got, "Apparent:10 Files:2} ") || !strings.Contains(got, "permission denied") {
		t.Errorf("measured %s", got)
	}
}

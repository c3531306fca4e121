package scratch

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// childEnv makes the test binary run as one of children instead of the tests.
const childEnv = "SCRATCH_TEST_CHILD"

// nobody is a user whom modes stop, which root is not.
const nobody = 65534

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		if err := children[name](os.Args[1]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testrun.Parallel(4)
	os.Exit(m.Run())
}

var children = map[string]func(arg string) error{
	// hold is a worker that is killed in the middle of an attempt.
	"hold": func(dir string) error {
		r, err := Open(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		d, err := r.Attempt("job-1", 1)
		if err != nil {
			return err
		}
		c, err := r.Checkpoint("job-1")
		err = errors.Join(err, os.WriteFile(filepath.Join(d.Output, "big"), make([]byte, 100), 0o600))
		if err != nil {
			return err
		}
		fmt.Println(d.Work, len(c.Dir))
		select {}
	},
	// remove removes a tree, with few open files.
	"remove": func(path string) error {
		few := unix.Rlimit{Cur: maxDepth + 30, Max: maxDepth + 30}
		if err := errors.Join(unix.Setrlimit(unix.RLIMIT_NOFILE, &few), become(nobody)); err != nil {
			return err
		}
		return removeTree(path, time.Hour)
	},
	"measure": func(path string) error {
		few := unix.Rlimit{Cur: 20, Max: 20}
		if err := errors.Join(unix.Setrlimit(unix.RLIMIT_NOFILE, &few), become(nobody)); err != nil {
			return err
		}
		u, err := Measure(path)
		fmt.Printf("%+v %v\n", u, err)
		return nil
	},
	// open opens a root as another user.
	"open": func(dir string) error {
		if err := become(nobody); err != nil {
			return err
		}
		_, err := Open(dir, slog.New(slog.DiscardHandler))
		return err
	},
}

// become makes root another user; any other user stays.
func become(id int) error {
	if os.Getuid() != 0 {
		return nil
	}
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(id), syscall.Setuid(id))
}

// child is a run of one of children.
func child(t *testing.T, name, arg string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, arg)
	c.Env = append(os.Environ(), childEnv+"="+name)
	return c
}

// said runs one of children and returns what it prints.
func said(t *testing.T, name, arg string) string {
	t.Helper()
	out, err := child(t, name, arg).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, arg, err, out)
	}
	return string(out)
}

// killedWorker opens a root in dir, as a process that is killed, and returns the directory in which
// its attempt ran. While it lives, check is called.
func killedWorker(t *testing.T, dir string, check func(work string)) (work string) {
	t.Helper()
	c := child(t, "hold", dir)
	out, err := c.StdoutPipe()
	if err := errors.Join(err, c.Start()); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, err := fmt.Sscan(line, &work); err != nil {
		t.Fatalf("it said %q: %v", line, err)
	}
	check(work)
	if err := errors.Join(err, c.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // killed
	return work
}

// forNobody returns a directory that children as nobody can come to and write in.
func forNobody(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "theirs")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil { //nolint:gosec // of the test alone
			t.Fatal(err)
		}
	}
	if os.Getuid() == 0 {
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// give makes nobody the owner of all of a tree.
func give(t *testing.T, path string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	err := filepath.WalkDir(path, func(at string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(at, nobody, nobody))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// deep makes a tree of n levels, far deeper than a path may be long, with a file of 4 KiB at the bottom.
func deep(t *testing.T, path string, n int) {
	t.Helper()
	at, err := unix.Open(path, openDirFlags, 0)
	for range n {
		if err == nil {
			err = unix.Mkdirat(at, "d", 0o700)
		}
		if err == nil && os.Getuid() == 0 {
			err = unix.Fchownat(at, "d", nobody, nobody, 0)
		}
		below := at
		if err == nil {
			below, err = unix.Openat(at, "d", openDirFlags, 0)
			_ = unix.Close(at)
		}
		at = below
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := unix.Openat(at, "bottom", unix.O_WRONLY|unix.O_CREAT, 0o600)
	if err == nil {
		_, err = unix.Write(f, make([]byte, 4096))
		_ = unix.Close(f)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(at)
}

// open opens a root whose log goes to the test.
func open(t *testing.T, dir string) *Root {
	t.Helper()
	r, err := Open(dir, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func attempt(t *testing.T, r *Root, n int) *Dir {
	t.Helper()
	d, err := r.Attempt("job-1", n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func wantGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

func wantThere(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

package storage_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

// childEnv makes the test binary run as one of children instead of the tests.
const childEnv = "STORAGE_TEST_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		if err := children[name](context.Background(), os.Args[1]); err != nil {
			fmt.Printf("unavailable=%v: %v\n", errors.Is(err, jobs.ErrUnavailable), err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// children do to the store in dir what a test cannot do to its own process.
var children = map[string]func(ctx context.Context, dir string) error{
	"put": func(ctx context.Context, dir string) error { // what stdin says
		s, err := storage.NewLocal(dir)
		if err != nil {
			return err
		}
		return s.Put(ctx, "dir/object", os.Stdin)
	},
	"put forever": func(ctx context.Context, dir string) error {
		s, err := storage.NewLocal(dir)
		for i := 0; err == nil; i++ {
			err = s.Put(ctx, "dir/object", strings.NewReader(strings.Repeat(string(rune('a'+i%26)), 100_000)))
			fmt.Println("done")
		}
		return err
	},
	// The kernel fails a write over this limit as it does on a full disk.
	"put on a full disk": func(ctx context.Context, dir string) error {
		signal.Ignore(syscall.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
			return err
		}
		s, err := storage.NewLocal(dir)
		if err != nil {
			return err
		}
		return s.Put(ctx, "dir/object", bytes.NewReader(make([]byte, 2<<20)))
	},
	"check on a full disk": func(ctx context.Context, dir string) error {
		signal.Ignore(syscall.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{}); err != nil {
			return err
		}
		s, err := storage.NewLocal(dir)
		if err != nil {
			return err
		}
		return s.Check(ctx)
	},
	"put as a stranger": func(ctx context.Context, dir string) error {
		s, err := asStranger(dir)
		if err != nil {
			return err
		}
		return s.Put(ctx, "object", strings.NewReader("new"))
	},
	"check as a stranger": func(ctx context.Context, dir string) error {
		s, err := asStranger(dir)
		if err != nil {
			return err
		}
		return s.Check(ctx)
	},
	// An error is that of the walk, or of a Delete.
	"walk as a stranger": func(ctx context.Context, dir string) error {
		s, err := asStranger(dir)
		if err != nil {
			return err
		}
		return s.Walk(ctx, "d/", func(name string, _ storage.Info, err error) error {
			if err == nil {
				err = s.Delete(ctx, name)
			}
			fmt.Println(name, errors.Is(err, fs.ErrPermission) && errors.Is(err, jobs.ErrUnavailable))
			if errors.Is(err, fs.ErrPermission) {
				return nil
			}
			return err
		})
	},
}

// asStranger opens the store as somebody who is not root, whom no mode stops.
func asStranger(dir string) (*storage.Local, error) {
	if os.Getuid() == 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
			return nil, err
		}
	}
	return storage.NewLocal(dir)
}

func childCommand(t *testing.T, name, dir string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), path, dir)
	c.Env = append(os.Environ(), childEnv+"="+name)
	return c
}

// temps returns the unfinished files in the directory, as paths.
func temps(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".batchfleet-put-") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestF46NoSymlinkLeavesTheDirectory(t *testing.T) {
	s, dir := newLocal(t)
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/secret", []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"file": outside + "/secret", "dir": outside, "up": "..", "passwd": "/etc/passwd", "loop": "loop",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "dir/secret", "up/x/secret", "passwd", "loop"} {
		_, err := s.Open(t.Context(), name)
		if _, statErr := s.Stat(t.Context(), name); !errors.Is(err, fs.ErrInvalid) || !errors.Is(statErr, fs.ErrInvalid) {
			t.Errorf("Open(%q) = %v, Stat = %v; want fs.ErrInvalid", name, err, statErr)
		}
	}
	for _, name := range []string{"dir/new", "dir/secret", "up/new", "dir/deep/new", "loop/new"} {
		if err := s.Put(t.Context(), name, strings.NewReader("overwritten")); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Put(%q) = %v, want fs.ErrInvalid", name, err)
		}
	}
	if err := s.Delete(t.Context(), "dir/secret"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("Delete through a link = %v, want fs.ErrInvalid", err)
	}
	storagetest.PutString(t, s, "file", "takes the place of the link")
	if b, err := os.ReadFile(outside + "/secret"); err != nil || string(b) != "secret" {
		t.Errorf("the file outside is %q now, %v", b, err)
	}
	if files, err := os.ReadDir(outside); err != nil || len(files) != 1 {
		t.Errorf("outside there are %v now, %v", files, err)
	}
}

func TestF46OddFilesAreNoObjects(t *testing.T) {
	s, dir := newLocal(t)
	if err := unix.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "fifo"); !errors.Is(err, fs.ErrInvalid) { // and does not hang
		t.Errorf("Open of a FIFO = %v, want fs.ErrInvalid", err)
	}
	socket, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", dir+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	odd := []string{"socket"}
	if err := unix.Mknod(dir+"/device", unix.S_IFCHR|0o600, int(unix.Mkdev(511, 0))); err == nil { // as root
		odd = append(odd, "device")
	}
	for _, name := range odd {
		if _, err := s.Open(t.Context(), name); !errors.Is(err, fs.ErrInvalid) || errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("Open of a %s = %v, want fs.ErrInvalid", name, err)
		}
	}
	storagetest.PutString(t, s, "a/b", "x")
	for _, name := range []string{"a", "a/b/c"} {
		if err := s.Put(t.Context(), name, strings.NewReader("y")); !errors.Is(err, fs.ErrInvalid) || errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("Put(%q) beside a/b = %v, want fs.ErrInvalid", name, err)
		}
	}
	if left := temps(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestF46LocalRefusesBucketsByName(t *testing.T) {
	s, _ := newLocal(t)
	_, err := s.Open(t.Context(), "gs://bucket/object")
	if !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "LOCAL") {
		t.Errorf("Open(gs://…) = %v, want it to say that the storage is LOCAL", err)
	}
}

func TestF46DirectoryThatCannotBeWrittenIsUnavailable(t *testing.T) {
	s, dir := newLocal(t)
	storagetest.PutString(t, s, "object", "old")
	// Strangers may come as far as the directory, and read it.
	for path, mode := range map[string]fs.FileMode{filepath.Dir(dir): 0o755, dir: 0o555} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	for _, name := range []string{"put as a stranger", "check as a stranger"} {
		out, err := childCommand(t, name, dir).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "unavailable=true") || !strings.Contains(string(out), "permission denied") {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
	if got := storagetest.GetString(t, s, "object"); got != "old" {
		t.Errorf("the object is %q now", got)
	}
}

func TestF46FullDiskIsUnavailableAndChangesNothing(t *testing.T) {
	s, dir := newLocal(t)
	storagetest.PutString(t, s, "dir/object", "old")
	for _, name := range []string{"put on a full disk", "check on a full disk"} {
		out, err := childCommand(t, name, dir).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "unavailable=true") || !strings.Contains(string(out), "file too large") {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
	if got := storagetest.GetString(t, s, "dir/object"); got != "old" {
		t.Errorf("the object is %q now", got)
	}
	if left := temps(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestF46CheckSaysTheSameOfTheSameTrouble so that the log says it once, and workers can be told of
// together.
func TestF46CheckSaysTheSameOfTheSameTrouble(t *testing.T) {
	_, dir := newLocal(t)
	want := fmt.Sprintf("unavailable=true: check storage directory %s: %v: file too large; it must exist, have free space and be writable for user id %d\n", dir, jobs.ErrUnavailable, os.Getuid())
	for range 2 {
		if out, err := childCommand(t, "check on a full disk", dir).CombinedOutput(); err == nil || string(out) != want {
			t.Errorf("it says %q, want %q", out, want)
		}
	}
}

func TestF46KilledPutIsSwept(t *testing.T) {
	s, dir := newLocal(t)
	storagetest.PutString(t, s, "dir/object", "old")
	c := childCommand(t, "put", dir)
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	// More than a pipe holds: when it is written, the Put is under way.
	if _, err := stdin.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // killed
	if got := storagetest.GetString(t, s, "dir/object"); got != "old" {
		t.Errorf("the object is %d bytes long now", len(got))
	}
	left := temps(t, dir)
	if len(left) != 1 {
		t.Fatalf("left behind: %q, want one file, or the test has shown nothing", left)
	}
	if n, err := s.SweepTemp(t.Context()); n != 0 || err != nil {
		t.Errorf("SweepTemp = %d, %v; the file is too young", n, err)
	}
	old := time.Now().Add(-61 * time.Minute)
	if err := os.Chtimes(left[0], old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(dir+"/dir/object", old, old); err != nil {
		t.Fatal(err)
	}
	if n, err := s.SweepTemp(t.Context()); n != 1 || err != nil || len(temps(t, dir)) != 0 {
		t.Errorf("SweepTemp = %d, %v; want 1", n, err)
	}
	if got := storagetest.GetString(t, s, "dir/object"); got != "old" {
		t.Errorf("the sweep has changed the object to %q", got)
	}
}

func TestF46KilledPutLeavesOldOrNew(t *testing.T) {
	s, dir := newLocal(t)
	for puts := 1; puts <= 10; puts++ {
		c := childCommand(t, "put forever", dir)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		// Then it is somewhere in the next one.
		if _, err := io.ReadFull(out, make([]byte, puts*len("done\n"))); err != nil {
			t.Fatal(err)
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // killed
		got := storagetest.GetString(t, s, "dir/object")
		if len(got) != 100_000 || strings.Trim(got, got[:1]) != "" {
			t.Errorf("killed after %d puts: the object is a part or a mixture, %d bytes", puts, len(got))
		}
	}
}

func TestF46DirectoryThatIsGoneIsUnavailableAndComesBack(t *testing.T) {
	s, dir := newLocal(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, openErr := s.Open(t.Context(), "object")
	_, statErr := s.Stat(t.Context(), "object")
	for method, err := range map[string]error{
		"Open": openErr, "Stat": statErr,
		"Put": s.Put(t.Context(), "object", strings.NewReader("x")), "Put below": s.Put(t.Context(), "a/b/object", strings.NewReader("x")),
	} {
		if !errors.Is(err, jobs.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(method, "Put") {
			t.Errorf("%s without the directory = %v, want jobs.ErrUnavailable", method, err)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check does not make the directory again: %v", err)
	}
	storagetest.PutString(t, s, "a/object", "x")
	if b, err := os.ReadFile(dir + "/a/object"); err != nil || string(b) != "x" {
		t.Errorf("the object is not in the new directory: %q, %v", b, err)
	}
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Check with a file in the directory's place = %v", err)
	}
}

func TestF46DeleteLeavesNoEmptyDirectories(t *testing.T) {
	s, dir := newLocal(t)
	storagetest.PutString(t, s, "a/b/c/object", "x")
	storagetest.PutString(t, s, "a/kept", "x")
	if err := s.Delete(t.Context(), "a/b/c/object"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/a/b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty directory is still there: %v", err)
	}
	if err := s.Delete(t.Context(), "a/kept"); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("the store itself was removed: %v", err)
	}
}

func TestF46OthersMayReadWhatIsStored(t *testing.T) {
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	s, dir := newLocal(t)
	storagetest.PutString(t, s, "a/object", "x")
	for path, want := range map[string]fs.FileMode{dir + "/a": 0o755, dir + "/a/object": 0o644} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %s is %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

func BenchmarkLocalPut(b *testing.B) {
	s, _ := newLocal(b)
	content := bytes.Repeat([]byte("x"), 300)
	i := 0
	for b.Loop() {
		i++
		if err := s.Put(b.Context(), fmt.Sprintf("results/job-%d/result.json", i), bytes.NewReader(content)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
}

func BenchmarkLocalPutFrom8(b *testing.B) {
	s, _ := newLocal(b)
	content := bytes.Repeat([]byte("x"), 300)
	b.SetParallelism(4) // times GOMAXPROCS, which is 2 here
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			name := "results/job-" + rand.Text() + "/result.json"
			if err := s.Put(b.Context(), name, bytes.NewReader(content)); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
}

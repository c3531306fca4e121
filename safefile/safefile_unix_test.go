//go:build unix

package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// zoo makes one file of each kind.
func zoo(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	socket, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	if err := errors.Join(
		os.WriteFile(at("file"), []byte("inside"), 0o600),
		os.Symlink("file", at("link")), os.Symlink("nothing", at("dangling")), os.Symlink("pipe", at("linkedpipe")),
		syscall.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("dir"), 0o700), os.Symlink(".", at("self")),
	); err != nil {
		t.Fatal(err)
	}
	return dir
}

// promptly fails if f takes a minute, which is the time of what never returns.
func promptly(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatal("it never returned")
		return nil
	}
}

func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := zoo(t)
	for _, tt := range []struct {
		name         string
		want, linked string // errors of Open and OpenLinked; empty for none
	}{
		{"file", "", ""},
		{"self/file", "", ""},
		{"link", "a symbolic link", ""},
		{"dangling", "a symbolic link", "no such file"},
		{"pipe", "a pipe", "a pipe"},
		{"linkedpipe", "a symbolic link", "a pipe"},
		{"socket", "a socket", "a socket"},
		{"dir", "a directory", "a directory"},
		{"nothing", "no such file", "no such file"},
		{"/dev/null", "a device", "a device"},
	} {
		for _, way := range []struct {
			name string
			open func(string) (*os.File, error)
			want string
		}{{"Open", Open, tt.want}, {"OpenLinked", OpenLinked, tt.linked}} {
			path := tt.name
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			err := promptly(t, func() error {
				f, err := way.open(path)
				if err == nil {
					err = f.Close()
				}
				return err
			})
			if p := (*fs.PathError)(nil); (err == nil) != (way.want == "") || err != nil && (!strings.Contains(err.Error(), way.want) || !errors.As(err, &p)) {
				t.Errorf("%s of %s: %v, want %q", way.name, tt.name, err, way.want)
			}
		}
	}
}

// Between the look at a file and its opening, somebody has put something else there.
func TestFileThatIsReplacedWhenItIsOpenedIsRefused(t *testing.T) {
	dir := zoo(t)
	opened := func(w way, name string) bool {
		w.look = func(string) (fs.FileInfo, error) { return os.Stat(filepath.Join(dir, "file")) }
		return promptly(t, func() error { _, err := w.open(filepath.Join(dir, name)); return err }) == nil
	}
	for _, name := range []string{"link", "linkedpipe", "pipe", "socket", "dir"} {
		if opened(direct, name) || opened(made, name) || name != "link" && opened(linked, name) {
			t.Errorf("%s was opened", name)
		}
	}
}

func TestOpenOrMake(t *testing.T) {
	dir := zoo(t)
	for name, want := range map[string]string{"file": "", "new": "", "dangling": "a symbolic link", "pipe": "a pipe"} {
		err := promptly(t, func() error { _, err := OpenOrMake(filepath.Join(dir, name)); return err })
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "new")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("made %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("where a link led, a file was made: %v", err)
	}
}

func TestSecretThatOthersMayChangeOrUseIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		mode, forbidden fs.FileMode
		limit           int64
		want            string
	}{
		{0o600, OthersUse, 7, ""},
		{0o400, OthersUse, 7, ""},
		{0o644, OthersWrite, 7, ""},
		{0o600, OthersUse, 6, "longer than 6 bytes"},
		{0o640, OthersUse, 7, "its mode is 0640, so others may use it: chmod 600 " + file},
		{0o604, OthersUse, 7, "others may use it"},
		{0o602, OthersUse, 7, "others may change it"},
		{0o620, OthersWrite, 7, "its mode is 0620, so others may change it: chmod 600 " + file},
		{0o602, OthersWrite, 7, "others may change it"},
	} {
		if err := os.Chmod(file, tt.mode); err != nil {
			t.Fatal(err)
		}
		text, err := Secret(file, tt.limit, tt.forbidden)
		if tt.want == "" && (err != nil || string(text) != "hunter2") || tt.want != "" && (err == nil || text != nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter")) {
			t.Errorf("mode %o: %q, %v, want %q", tt.mode, text, err, tt.want)
		}
	}
}

func TestDirThatOthersMayChangeIsRefused(t *testing.T) {
	dir := zoo(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Mkdir(at("open"), 0o700), os.Chmod(at("open"), 0o777), os.Mkdir(at("group"), 0o700), os.Chmod(at("group"), 0o720), os.Symlink("dir", at("dirlink"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"dir": "", "new/below": "", "open": "its mode is 0777, so others could change what is in it: chmod 700 " + at("open"),
		"group": "chmod 700", "dirlink": "a symbolic link, not a directory", "file": "not a directory", "dangling": "file exists",
	} {
		if err := Dir(at(name)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if info, err := os.Stat(at("new")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("made %v, %v", info, err)
	}
}

// childDir makes the test binary do the part of a test that root cannot show.
const childDir = "SAFEFILE_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if os.Getuid() == 0 { // whom no mode stops
			if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
				panic(err)
			}
		}
		if err := RemoveAll(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestDirectoriesThatWereClosedAreRemoved(t *testing.T) {
	dir := zoo(t)
	inner := filepath.Join(dir, "dir", "inner")
	if err := errors.Join(os.Mkdir(inner, 0o700), os.WriteFile(filepath.Join(inner, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if os.Getuid() == 0 {
			err = errors.Join(err, os.Lchown(path, 65534, 65534))
		}
		return err
	})
	outer := filepath.Join(dir, "dir")
	if err := errors.Join(err, os.Chmod(inner, 0), os.Chmod(outer, 0), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self)
	c.Env = append(os.Environ(), childDir+"="+outer)
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if _, err := os.Lstat(outer); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

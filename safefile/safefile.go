// Package safefile reads and replaces files that another user may have planted: a link
// to another file, a pipe without a writer, a file without end, a secret that others
// may change.
//
// It guards against other users of the machine, and against programs that leave
// files behind. It does not protect against a file that changes while it is read.
//
// The package imports only the standard library; every other package may import it.
package safefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// The modes that [Secret] may refuse: others may write the file, or read it, too.
const (
	OthersWrite fs.FileMode = 0o022
	OthersUse   fs.FileMode = 0o077
)

// Open opens a regular file for reading. Anything else is refused at once, and
// not opened: a pipe, a device, a directory, and a link as the last part of the
// path. Links before that are followed. Its errors are of type [*fs.PathError].
func Open(path string) (*os.File, error) { return direct.open(path) }

// OpenLinked is Open for what may well be a link, such as a certificate. What the
// link leads to must be a regular file.
func OpenLinked(path string) (*os.File, error) { return linked.open(path) }

// OpenOrMake is Open for reading and writing. A file that is missing is made, for
// its owner alone.
func OpenOrMake(path string) (*os.File, error) { return made.open(path) }

// way is a way to open a file.
type way struct {
	look  func(string) (fs.FileInfo, error)
	flags int
}

var (
	direct = way{os.Lstat, os.O_RDONLY | noFollow}
	linked = way{os.Stat, os.O_RDONLY}
	made   = way{os.Lstat, os.O_RDWR | os.O_CREATE | noFollow}
)

func (w way) open(path string) (*os.File, error) {
	// Before it is opened, because opening alone can act on a device, and its error is
	// of no use for a link or a socket.
	info, err := w.look(path)
	if err == nil {
		err = regular(path, info)
	}
	if p := (*fs.PathError)(nil); errors.As(err, &p) && (w.flags&os.O_CREATE == 0 || !errors.Is(err, fs.ErrNotExist)) {
		return nil, refused(path, p.Err) // report it as a failed open; the caller did not ask for lstat
	}
	// It may have been replaced since.
	f, err := os.OpenFile(path, w.flags|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err = f.Stat()
	if err == nil {
		err = regular(path, info)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

func regular(path string, info fs.FileInfo) error {
	if mode := info.Mode(); !mode.IsRegular() {
		return refused(path, fmt.Errorf("%s, not a regular file", kind(mode)))
	}
	return nil
}

func refused(path string, err error) error { return &fs.PathError{Op: "open", Path: path, Err: err} }

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// Read returns what is in a file that [Open] opens, and an error if that is more
// than limit bytes.
func Read(path string, limit int64) ([]byte, error) { return read(path, limit, Open) }

// ReadLinked is Read with [OpenLinked].
func ReadLinked(path string, limit int64) ([]byte, error) { return read(path, limit, OpenLinked) }

func read(path string, limit int64, open func(string) (*os.File, error)) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return atMost(f, limit)
}

func atMost(f *os.File, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is longer than %d bytes", f.Name(), limit)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// Secret is [Read] for a file that holds a secret, or names those who have one. It is
// refused if its mode grants others anything of forbidden. Errors do not quote it.
func Secret(path string, limit int64, forbidden fs.FileMode) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch mode := info.Mode().Perm(); {
	case runtime.GOOS == "windows", mode&forbidden == 0: // there modes say nothing
	case mode&OthersWrite != 0:
		return nil, refused(path, fmt.Errorf("its mode is %04o, so others may change it: chmod 600 %s (and make sure that it holds what you put there)", mode, path))
	default:
		return nil, refused(path, fmt.Errorf("its mode is %04o, so others may use it: chmod 600 %s (and replace the secret if somebody may have read it)", mode, path))
	}
	return atMost(f, limit)
}

// Dir makes a directory for its owner alone, if there is none, and those above it,
// and returns why others could change what is in it. A link is refused.
func Dir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if err := CheckDir(path, info); err != nil {
		return refused(path, err)
	}
	return nil
}

// CheckDir returns why others could change what is in the directory at path, or that
// it is no directory. info describes it.
func CheckDir(path string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case !mode.IsDir():
		return fmt.Errorf("%s, not a directory", kind(mode))
	case mode.Perm()&OthersWrite != 0 && runtime.GOOS != "windows": // there modes say nothing
		return fmt.Errorf("its mode is %04o, so others could change what is in it: chmod 700 %s, or take a directory below it", mode.Perm(), path)
	}
	return nil
}

// RemoveAll is [os.RemoveAll] for the files of a program that may have made its own
// directories read-only.
func RemoveAll(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	// A directory is shown before it is read, and a link in it is not followed.
	_ = filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // a directory needs the x
		}
		return nil // what cannot be walked, cannot be removed either, which is said below
	})
	return os.RemoveAll(path)
}

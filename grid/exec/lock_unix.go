//go:build unix

package exec

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/batchfleet/batchfleet/flock"
)

// errGone says that a directory was deleted before it could be locked.
var errGone = errors.New("directory was deleted")

// lockDir locks a directory until the file is closed. The error is [errGone], [flock.ErrLocked], or says what else is at path.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	if err = flock.Lock(f); err == nil {
		err = stillThere(f, path)
	}
	if err != nil {
		_ = f.Close() // a directory
		return nil, err
	}
	return f, nil
}

func stillThere(f *os.File, path string) error {
	opened, err := f.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(opened, now) {
		return errGone
	}
	return nil
}

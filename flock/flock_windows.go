package flock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Lock locks an open file until it is closed, or returns [ErrLocked] at once.
func Lock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

// Release gives the lock of a file back and closes it.
func Release(f *os.File) error { return f.Close() }

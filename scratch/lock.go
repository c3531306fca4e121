package scratch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/batchfleet/batchfleet/flock"
	"github.com/batchfleet/batchfleet/safefile"
)

const lockName = "lock"

// ErrInUse says that another attempt, of this worker or of another one of the machine, uses a
// checkpoint.
var ErrInUse = errors.New("another attempt uses the checkpoint")

// lockDir locks a directory until the returned file is closed, and makes it before if create
// is set. It returns [ErrInUse] at once if it is locked, and an error that is
// [fs.ErrNotExist] if it is missing.
func lockDir(path string, create bool) (*os.File, error) {
	for {
		if create {
			// "Exists" also when its owner has deleted it since.
			if err := os.MkdirAll(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, err
			}
		}
		lock, err := lockIn(path)
		if create && errors.Is(err, fs.ErrNotExist) {
			continue // its last owner has just deleted it
		}
		return lock, err
	}
}

func lockIn(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() { // whatever its mode: nobody else comes below batchfleet-scratch
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	name := filepath.Join(path, lockName)
	lock, err := safefile.OpenOrMake(name)
	if err != nil {
		return nil, err
	}
	err = flock.Lock(lock)
	if locked := errors.Is(err, flock.ErrLocked); locked || err == nil {
		// One that was deleted may be locked as well, for another job: see Checkpoint.Delete.
		if err = stillThere(lock, name); locked && err == nil {
			err = ErrInUse
		}
	}
	if err != nil {
		closeFile(lock)
		return nil, err
	}
	return lock, nil
}

// stillThere returns an error that is [fs.ErrNotExist] if path is no longer the file that was opened, which
// who held its lock may have deleted.
func stillThere(lock *os.File, path string) error {
	opened, err := lock.Stat()
	if err != nil {
		return err
	}
	now, err := os.Lstat(path)
	if err == nil && !os.SameFile(opened, now) {
		err = &fs.PathError{Op: "lock", Path: path, Err: fs.ErrNotExist}
	}
	return err
}

// touch sets the time of a directory's lock to now: it is that of the last use.
func touch(dir string) {
	now := time.Now()
	_ = os.Chtimes(filepath.Join(dir, lockName), now, now) // an old time makes the directory end sooner
}

// deleteLocked deletes a directory that lockDir has locked, and gives the lock back.
func (r *Root) deleteLocked(path string, lock *os.File) error {
	defer release(lock) // after the deletion: nobody else may use it meanwhile
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		if e.Name() != lockName {
			r.discard(filepath.Join(path, e.Name()))
		}
	}
	err = errors.Join(err, os.Remove(filepath.Join(path, lockName)))
	// The next attempt may have come already, and even have deleted it.
	if e := os.Remove(path); !errors.Is(e, fs.ErrExist) && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}

// closeFile closes a file that was not written to; nil is no file.
func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close()
	}
}

// release gives a lock back; nil is none.
func release(lock *os.File) {
	if lock != nil {
		_ = flock.Release(lock) // it was not written to
	}
}

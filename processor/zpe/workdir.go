package zpe

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// workPrefix begins the names of the directories that jobs run in.
const workPrefix = "batchfleet-zpe-"

// lockName is a file in each of them, locked for as long as the job runs: the
// kernel unlocks it when a worker is killed, and whoever comes next deletes the
// directory.
const lockName = "lock"

// workDir makes a directory for a job, which done deletes.
func (h *Handler) workDir() (dir string, done func(), err error) {
	base := h.WorkDir
	if base == "" {
		base = os.TempDir()
	}
	sweep(base)
	for range 10 {
		dir, err = os.MkdirTemp(base, workPrefix)
		if err != nil {
			return "", nil, workTrouble("make a work directory", err)
		}
		lock, ours, err := lockDir(dir)
		if err != nil {
			_ = os.RemoveAll(dir) // nothing more can be done
			return "", nil, workTrouble("lock a work directory", err)
		}
		if ours {
			return dir, func() {
				_ = os.RemoveAll(dir) // what is left, a later job deletes
				_ = lock.Close()
			}, nil
		}
		_ = lock.Close() // another's sweep came between
	}
	return "", nil, workTrouble("make a work directory", errors.New("others delete it"))
}

// lockDir locks a new directory. It reports false if a sweep has taken it for an
// abandoned one in the moment before.
func lockDir(dir string) (lock *os.File, ours bool, err error) {
	lock, err = os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	ours, err = tryLock(lock)
	if err != nil {
		_ = lock.Close()
		return nil, false, err
	}
	if _, gone := os.Stat(lock.Name()); gone != nil {
		ours = false
	}
	return lock, ours, nil
}

// sweep deletes the directories of workers that were killed. A directory without
// a lock file is one that is being made at this moment, or deleted.
func sweep(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), workPrefix) {
			continue
		}
		dir := filepath.Join(base, e.Name())
		lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if abandoned(lock) {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}

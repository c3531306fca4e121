package zpe

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/batchfleet/batchfleet/flock"
)

// workPrefix begins the names of the directories that jobs run in, newPrefix
// those of directories that are being made.
const (
	workPrefix = "batchfleet-zpe-"
	newPrefix  = "batchfleet-new-zpe-"
)

// lockName is a file in each of them, locked for as long as the job runs: the
// kernel unlocks it when a worker is killed, and whoever comes next deletes the
// directory.
const lockName = "lock"

// workDir makes a directory for a job, which done deletes. It gets the name by
// which others know it when it is locked.
func (h *Handler) workDir() (dir string, done func(), err error) {
	base := h.WorkDir
	if base == "" {
		base = os.TempDir()
	}
	sweep(base)
	made, err := os.MkdirTemp(base, newPrefix)
	if err != nil {
		return "", nil, workTrouble("make a work directory", err)
	}
	dir = filepath.Join(base, workPrefix+strings.TrimPrefix(filepath.Base(made), newPrefix))
	lock, err := os.OpenFile(filepath.Join(made, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = errors.Join(hold(lock), os.Rename(made, dir))
	}
	if err != nil {
		_ = lock.Close() // nothing more can be done
		_ = os.RemoveAll(made)
		return "", nil, workTrouble("lock a work directory", err)
	}
	return dir, func() {
		_ = os.RemoveAll(dir) // what is left, a later job deletes
		_ = lock.Close()
	}, nil
}

// sweep deletes the directories of workers that were killed. A directory without
// a lock file is one that is being deleted.
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

// locks is false on Windows, where a directory with an open file may not be
// renamed: there nothing is locked, and nothing deleted that may be in use.
const locks = runtime.GOOS != "windows"

// hold locks f until it is closed, also by the death of the process.
func hold(f *os.File) error {
	if !locks {
		return f.Close()
	}
	return flock.Lock(f)
}

// abandoned reports whether nobody holds f, and holds it.
func abandoned(f *os.File) bool { return locks && flock.Lock(f) == nil }

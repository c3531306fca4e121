package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/flock"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/scratch"
)

const (
	partPrefix = ".part-"
	keepParts  = 24 * time.Hour // of a dead process
	mostDirs   = 100            // of one job at the same time
)

// workDir is the directory in which an attempt runs, locked until it is removed.
type workDir struct {
	path string
	root *os.Root
	lock *os.File
	own  scratch.DirState // of .grid
	exe  link             // the program in it; its zero value is none
	left fs.FileInfo      // the directory when it was kept
}

// makeWorkDir makes the work directory of a job, or another one beside it if an attempt that was given up still has it. It
// may have the program in it already.
func (r *Runner) makeWorkDir(id wire.GUID, exe string) (*workDir, error) {
	path := filepath.Join(r.JobsDir, id.N())
	if w := r.idle.take(exe); w != nil {
		if w.isAsLeft() && w.rename(path) == nil {
			return w, nil
		}
		if err := w.remove(); err != nil {
			r.Log.Warn("cannot delete a work directory; it will be tried again", "path", w.path, "err", err)
		}
	}
	for n := 2; ; n++ {
		w, err := makeLocked(path)
		if errors.Is(err, fs.ErrNotExist) { // the directory of jobs was deleted
			if err = scratch.OwnDir(r.JobsDir); err == nil {
				w, err = makeLocked(path)
			}
		}
		if err == nil {
			return w, w.makeOwn()
		}
		if !errors.Is(err, flock.ErrLocked) || n > mostDirs {
			return nil, err
		}
		path = filepath.Join(r.JobsDir, id.N()+"-"+strconv.Itoa(n))
	}
}

// makeLocked makes a directory in the place of one that a dead process has left.
func makeLocked(path string) (*workDir, error) {
	for {
		err := os.Mkdir(path, 0o700)
		if errors.Is(err, fs.ErrExist) {
			if err := removeUnlocked(path); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		lock, err := lockDir(path)
		if errors.Is(err, errGone) || errors.Is(err, flock.ErrLocked) { // by a sweep
			continue
		}
		if err != nil {
			return nil, err
		}
		root, err := os.OpenRoot(path)
		if err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		return &workDir{path: path, root: root, lock: lock}, nil
	}
}

// makeOwn makes the directory for temporary files.
func (w *workDir) makeOwn() error {
	if err := w.root.Mkdir(ownDir, 0o700); err != nil {
		return err
	}
	w.own, _, _ = scratch.Inspect(filepath.Join(w.path, ownDir))
	return nil
}

// removeUnlocked deletes a directory unless it is locked: then the error is [flock.ErrLocked].
func removeUnlocked(path string) error {
	lock, err := lockDir(path)
	switch {
	case errors.Is(err, errGone):
		return nil
	case errors.Is(err, flock.ErrLocked):
		return err
	case err == nil:
		defer lock.Close()
	}
	return scratch.RemoveAll(path) // it may be a link, which is what is deleted then
}

// remove deletes the directory. What cannot be deleted is left to a sweep.
func (w *workDir) remove() error {
	_ = w.root.Close() // a directory
	return errors.Join(scratch.RemoveAll(w.path), flock.Release(w.lock))
}

// workDirForm is the form of a work directory's name.
var workDirForm = jobs.Form(`^[0-9a-f]{32}(?:-[0-9]{1,3})?$`)

// sweep deletes what dead processes have left.
func (r *Runner) sweep() {
	entries, err := os.ReadDir(r.JobsDir)
	if err != nil {
		r.Log.Warn("cannot sweep the directory of jobs", "dir", r.JobsDir, "err", err)
	}
	for _, e := range entries {
		path := filepath.Join(r.JobsDir, e.Name())
		if err := sweepOne(path, e, workDirForm()); err != nil {
			r.Log.Warn("cannot delete what an earlier worker has left", "path", path, "err", err)
		}
	}
}

func sweepOne(path string, e fs.DirEntry, workDir *regexp.Regexp) error {
	switch {
	case workDir.MatchString(e.Name()), strings.HasPrefix(e.Name(), exesPrefix), strings.HasPrefix(e.Name(), idlePrefix):
		if err := removeUnlocked(path); !errors.Is(err, flock.ErrLocked) {
			return err
		}
	case strings.HasPrefix(e.Name(), partPrefix):
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > keepParts {
			return os.Remove(path)
		}
	}
	return nil
}

// temp makes a file that its user removes.
func (r *Runner) temp() (*os.File, error) {
	f, err := os.CreateTemp(r.JobsDir, partPrefix)
	if err != nil {
		return nil, fmt.Errorf("make temporary file: %w", err)
	}
	return f, nil
}

package exec

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/batchfleet/batchfleet/scratch"
)

// maxIdle is how many work directories are kept for other attempts. To make and delete directories is slow, on ext4 several
// milliseconds an attempt.
const maxIdle = 64

const idlePrefix = ".idle-"

// idle keeps work directories that have nothing in them but a program. Its methods may be called concurrently.
type idle struct {
	mu  sync.Mutex
	all []*workDir
}

// take returns a directory, with the program if there is one that has it; nil if there is none.
func (i *idle) take(exe string) *workDir {
	i.mu.Lock()
	defer i.mu.Unlock()
	last := len(i.all) - 1
	if last < 0 {
		return nil
	}
	at := slices.IndexFunc(i.all, func(w *workDir) bool { return w.exe.name == exe })
	if at < 0 {
		at = last
	}
	w := i.all[at]
	i.all[at] = i.all[last]
	i.all[last] = nil
	i.all = i.all[:last]
	return w
}

// add keeps a directory and reports whether there was room for it.
func (i *idle) add(w *workDir) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.all) >= maxIdle {
		return false
	}
	i.all = append(i.all, w)
	return true
}

// removeAll deletes the directories.
func (i *idle) removeAll() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	var errs []error
	for _, w := range i.all {
		errs = append(errs, w.remove())
	}
	i.all = nil
	return errors.Join(errs...)
}

// keepIdle keeps the work directory for another attempt, if the program has left nothing in it but what it was given.
func (a *attempt) keepIdle() bool {
	w := a.work
	for _, f := range a.Request.Files {
		if w.root.Remove(f.Name) != nil {
			return false
		}
	}
	if !a.asMade && !w.isAsMade() || w.rename(filepath.Join(a.JobsDir, idlePrefix+rand.Text()[:10])) != nil {
		return false
	}
	var err error
	w.left, err = w.lock.Stat()
	return err == nil && a.idle.add(w)
}

// isAsLeft reports whether nothing has changed in the directory since it was kept. A process that was not found may have.
func (w *workDir) isAsLeft() bool {
	now, err := w.lock.Stat()
	return err == nil && sameContent(now, w.left) && w.own.IsEmpty(filepath.Join(w.path, ownDir))
}

// isAsMade reports whether there is nothing in the directory but an empty one for temporary files and the program, which are
// as they were made.
func (w *workDir) isAsMade() bool {
	names := 1
	if w.exe.name != "" {
		names++
		if now, err := os.Lstat(filepath.Join(w.path, w.exe.name)); err != nil || !sameContent(now, w.exe.file) {
			return false
		}
	}
	opened, err := w.lock.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(w.path)
	if err != nil || !os.SameFile(opened, now) {
		return false
	}
	_, found, ok := scratch.Inspect(w.path)
	return ok && found == names && w.own.IsEmpty(filepath.Join(w.path, ownDir))
}

func (w *workDir) rename(to string) error {
	err := os.Rename(w.path, to)
	if err == nil {
		w.path = to
	}
	return err
}

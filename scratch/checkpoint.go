package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/batchfleet/batchfleet/jobs"
)

// Checkpoint is the directory in which a job keeps what its next attempt goes on from. Until it is
// closed or deleted, no other attempt of this machine has it.
type Checkpoint struct {
	Dir string

	path string   // what holds Dir and the lock
	lock *os.File // nil once it is closed or deleted
	root *Root
	made DirState // of Dir when it was empty; zero if it never was
}

// Checkpoint opens the checkpoint of a job, which is empty if there was none. It returns [ErrInUse] at
// once if another attempt has it: one that was given up and has not yet ended.
func (r *Root) Checkpoint(id jobs.ID) (*Checkpoint, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	path := r.checkpointPath(id)
	if c := r.takeIdleCheckpoint(path); c != nil {
		return c, nil
	}
	lock, err := lockDir(path, true)
	if err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	c := &Checkpoint{lock: lock, root: r}
	c.at(path)
	if err := c.makeDir(); err != nil {
		c.Close()
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	if made, names, ok := Inspect(c.Dir); ok && names == 0 {
		c.made = made // else it is of no use to another job
	}
	touch(path)
	return c, nil
}

// takeIdleCheckpoint makes one that an earlier job has left empty that of path. It returns nil if there is none, and
// if path has one already.
func (r *Root) takeIdleCheckpoint(path string) *Checkpoint {
	c, ok := r.idleCheckpoints.take()
	if !ok {
		return nil
	}
	touch(c.path) // before a sweep sees it
	switch err := renameNew(c.path, path); {
	case errors.Is(err, fs.ErrExist):
		r.idleCheckpoints.add(c)
		return nil
	case err != nil:
		_ = c.discard() // with the directory of this worker
		return nil
	}
	c.at(path)
	if !c.made.IsEmpty(c.Dir) { // a process that was not found has written to it
		_ = c.discard() // the caller meets what is left
		return nil
	}
	return c
}

// at sets the paths.
func (c *Checkpoint) at(path string) { c.path, c.Dir = path, filepath.Join(path, "data") }

// makeDir makes the directory if it is missing, and again if a program has put something else there.
func (c *Checkpoint) makeDir() error {
	info, err := os.Lstat(c.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.Mkdir(c.Dir, 0o700)
	case err != nil:
		return err
	case !info.IsDir():
		c.root.log.Warn("a program has replaced its checkpoint; it starts without one", "path", c.Dir, "mode", info.Mode().String())
		return errors.Join(os.Remove(c.Dir), os.Mkdir(c.Dir, 0o700))
	case info.Mode().Perm() != 0o700:
		return os.Chmod(c.Dir, 0o700) //nolint:gosec // a directory needs the x
	}
	return nil
}

// Usage returns what the checkpoint has on the disk. See [Measure].
func (c *Checkpoint) Usage() (Usage, error) { return Measure(c.Dir) }

// Close leaves the checkpoint for the next attempt. It is deleted after a week without one. Close
// does nothing after Delete.
func (c *Checkpoint) Close() {
	if c.lock != nil {
		touch(c.path)
		release(c.lock)
		c.lock = nil
	}
}

// Delete deletes the checkpoint, in place of Close: the job has ended.
func (c *Checkpoint) Delete() error {
	if c.keepIdle() {
		return nil
	}
	return c.discard()
}

func (c *Checkpoint) discard() error {
	lock := c.lock
	c.lock = nil
	return c.root.deleteLocked(c.path, lock)
}

// keepIdle keeps what another job may have because this one has left nothing in it. It stays locked.
func (c *Checkpoint) keepIdle() bool {
	path := c.root.idlePath()
	if c.root.idleCheckpoints.full() || !c.made.IsEmpty(c.Dir) || !c.isAlone() || rename(c.path, path) != nil {
		return false
	}
	kept := *c
	kept.at(path)
	c.lock = nil
	c.root.idleCheckpoints.add(&kept)
	return true
}

// isAlone reports whether nothing else is beside the directory and its lock.
func (c *Checkpoint) isAlone() bool {
	_, names, ok := Inspect(c.path)
	return ok && names == 2 && stillThere(c.lock, filepath.Join(c.path, lockName)) == nil
}

// DeleteCheckpoint deletes the checkpoint of a job that has ended, if there is one. It returns [ErrInUse]
// as Checkpoint does.
func (r *Root) DeleteCheckpoint(id jobs.ID) error {
	if err := checkID(id); err != nil {
		return err
	}
	if _, err := os.Lstat(r.checkpointPath(id)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	c, err := r.Checkpoint(id)
	if err != nil {
		return err
	}
	return c.Delete()
}

// checkpointPath is what holds the checkpoint of a job and its lock.
func (r *Root) checkpointPath(id jobs.ID) string {
	return filepath.Join(r.dir, "checkpoints", string(id))
}

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

	path string // what holds Dir and the lock
	lock *os.File
	root *Root
}

// Checkpoint opens the checkpoint of a job, which is empty if there was none. It returns [ErrInUse] at
// once if another attempt has it: one that was given up and has not yet ended.
func (r *Root) Checkpoint(id jobs.ID) (*Checkpoint, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	path := filepath.Join(r.dir, "checkpoints", string(id))
	lock, err := lockDir(path, true)
	if err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	c := &Checkpoint{Dir: filepath.Join(path, "data"), path: path, lock: lock, root: r}
	if err := c.makeDir(); err != nil {
		c.Close()
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	touch(lock)
	return c, nil
}

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

// Close leaves the checkpoint for the next attempt. It is deleted after a week without one.
func (c *Checkpoint) Close() {
	touch(c.lock)
	closeFile(c.lock)
}

// Delete deletes the checkpoint, in place of Close: the job has ended.
func (c *Checkpoint) Delete() error { return c.root.deleteLocked(c.path, c.lock) }

// Package scratch keeps the directories in which programs run, and deletes them.
//
// A [Root] is the part of WORK_DIR that one worker process uses. Each attempt has a
// [Dir] of its own there, made empty and deleted when the attempt has ended. A
// [Checkpoint] belongs to a job: it outlives attempts and workers, and all workers of
// the machine share it, one attempt at a time. What a killed worker has left is deleted by
// the next one that starts, or by [Root.Sweep] of one that runs.
//
//	WORK_DIR/batchfleet-scratch/
//	  workers/NAME/lock          locked while that worker process lives
//	  workers/NAME/JOB-ATTEMPT/  work, input, output, params
//	  workers/NAME/idle-NAME/    the same, or a checkpoint, empty, for the next attempt
//	  checkpoints/JOB/lock       locked while an attempt uses it; its time is that of the last use
//	  checkpoints/JOB/data       the checkpoint
//	  checkpoints/JOB/origin     which archive it is of, if it has come from another machine or has gone there
//	  trash/NAME                 what could not be deleted, to be tried again
//
// With [Root.Place] attempts have their directories elsewhere, and none are kept for the next one.
//
// WORK_DIR is on a disk of this machine: locks of network file systems may not be seen by
// other machines. The programs have the rights of the worker's user, so the package guards
// against what they leave behind, such as links, closed directories and deep trees. It cannot keep
// them from the directories of each other.
package scratch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/safefile"
)

const (
	sweepEvery = time.Hour
	// keepCheckpoint is how long a checkpoint is kept that no attempt uses.
	keepCheckpoint = 7 * 24 * time.Hour
	// patience is for the deletion of one tree.
	patience = time.Minute
)

// Root is where one worker process has the directories of its attempts. Its methods may
// be called concurrently, but for Close.
type Root struct {
	// Place, if it is set before the first attempt, returns where a job's attempts have their directories, in place
	// of WORK_DIR: attempt 3 in Place(id)/3. It is an absolute path without links, of a directory that is there already,
	// for its owner alone, on the file system of WORK_DIR. What a killed process leaves there is for the caller to
	// delete: see RemoveAll. It may be called concurrently.
	Place func(id jobs.ID) string

	dir      string   // batchfleet-scratch, as an absolute path without links
	own      string   // of this process, below dir
	held     *os.File // see holdDir; nil where that does nothing
	log      *slog.Logger
	patience time.Duration // for the deletion of one tree, which a later sweep goes on with

	mu   sync.Mutex
	lock *os.File // in own

	idleDirs        idle[*Dir]
	idleCheckpoints idle[*Checkpoint]
}

// Open makes what is missing in dir, which may be a link, and deletes what dead workers have left
// in it. Their processes should be dead by then, too (command.Sweep). An empty dir means the
// system's directory for temporary files. The error says why others could change what is in it.
func Open(dir string, log *slog.Logger) (*Root, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	r := &Root{dir: filepath.Join(dir, "batchfleet-scratch"), log: log, patience: patience}
	for _, sub := range []string{"", "workers", "checkpoints", "trash"} {
		if err := OwnDir(filepath.Join(r.dir, sub)); err != nil {
			return nil, err
		}
	}
	if r.held, err = holdDir(r.dir); err != nil {
		return nil, err
	}
	if err := r.takeOwn(); err != nil {
		closeFile(r.held)
		return nil, err
	}
	r.Sweep()
	return r, nil
}

// OwnDir makes a directory, and returns why others could change what is in it.
func OwnDir(path string) error {
	if err := safefile.Dir(path); err != nil {
		return err
	}
	return checkOwner(path)
}

// takeOwn makes the directory of this process.
func (r *Root) takeOwn() (err error) {
	// Short, because programs make sockets below it, whose paths have at most 107 bytes.
	for {
		r.own = filepath.Join(r.dir, "workers", rand.Text()[:10])
		r.lock, err = lockDir(r.own, true)
		if !errors.Is(err, ErrInUse) { // by the sweep of another worker, which came before the lock
			return err
		}
	}
}

// keepOwn makes the directory of this process and its lock again if something else has deleted them, as
// programs do that clear directories for temporary files.
func (r *Root) keepOwn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := stillThere(r.lock, filepath.Join(r.own, lockName))
	if err == nil {
		touch(r.own) // such programs go by the time
		return
	}
	r.log.Warn("something else deletes files of this worker; give it a WORK_DIR of its own", "dir", r.own, "err", err)
	lock, err := lockDir(r.own, true)
	if err != nil {
		r.log.Error("cannot make the scratch directory of this worker again", "dir", r.own, "err", err)
		return
	}
	release(r.lock)
	r.lock = lock
}

// Close deletes the directory of this process. Nothing may run in it any more.
func (r *Root) Close() error {
	closeFile(r.held)
	for c, ok := r.idleCheckpoints.take(); ok; c, ok = r.idleCheckpoints.take() {
		release(c.lock)
	}
	return r.deleteLocked(r.own, r.lock)
}

// Run sweeps every hour until ctx ends.
func (r *Root) Run(ctx context.Context) {
	for jobs.Sleep(ctx, sweepEvery) == nil {
		r.Sweep()
	}
}

// Sweep deletes what dead workers have left, checkpoints that have not been used for a week, and what
// could not be deleted before. What it cannot delete is logged.
func (r *Root) Sweep() {
	r.keepOwn()
	for _, path := range r.entries("workers") {
		if path != r.own {
			r.sweepLocked(path, func() bool { return true })
		}
	}
	for _, path := range r.entries("checkpoints") {
		if old(filepath.Join(path, lockName)) {
			r.sweepLocked(path, func() bool { return old(filepath.Join(path, lockName)) })
		}
	}
	for _, path := range r.entries("trash") {
		if err := removeTree(path, r.patience); err != nil {
			r.log.Warn("cannot delete what a program has left", "path", path, "err", err)
		}
	}
}

// old reports whether a file is there and has not been used for a week, or is not there.
func old(path string) bool {
	info, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist) || err == nil && time.Since(info.ModTime()) > keepCheckpoint
}

// sweepLocked deletes a directory if nobody uses it and due, asked under its lock, reports true.
func (r *Root) sweepLocked(path string, due func() bool) {
	lock, err := lockDir(path, false)
	if errors.Is(err, ErrInUse) || errors.Is(err, os.ErrNotExist) {
		return
	}
	if errors.Is(err, syscall.ENOTDIR) { // not ours: a program has put it there
		r.discard(path)
		return
	}
	if err != nil { // a worker that lives may use it
		r.log.Warn("cannot lock a scratch directory", "path", path, "err", err)
		return
	}
	if !due() {
		release(lock)
		return
	}
	if err := r.deleteLocked(path, lock); err != nil {
		r.log.Warn("cannot delete a scratch directory", "path", path, "err", err)
		return
	}
	r.log.Info("deleted a scratch directory that was left over", "path", path)
}

// entries returns the paths of what is in a directory of the root.
func (r *Root) entries(sub string) (paths []string) {
	dir := filepath.Join(r.dir, sub)
	entries, err := os.ReadDir(dir)
	if err != nil {
		r.log.Warn("cannot sweep a directory", "dir", dir, "err", err)
	}
	for _, e := range entries {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	return paths
}

// discard deletes path. What cannot be deleted is moved out of the way, logged, and
// deleted by a later sweep.
func (r *Root) discard(path string) {
	err := removeTree(path, r.patience)
	if err == nil {
		return
	}
	aside := filepath.Join(r.dir, "trash", rand.Text())
	if err := errors.Join(err, os.Rename(path, aside)); err != nil {
		r.log.Warn("cannot delete what a program has left; it will be tried again", "path", path, "aside", aside, "err", err)
	}
}

// RemoveAll deletes path with all that is in it, which a program may have left: closed directories, links, trees that
// are deeper than a path may be long. There need be nothing. It gives up after a minute, for a program may make files
// faster than they can be deleted, and a later call goes on with what is left.
func RemoveAll(path string) error { return removeTree(path, patience) }

// checkID returns an error if a job id is no name of a directory.
func checkID(id jobs.ID) error {
	if _, err := jobs.ParseID(string(id)); err != nil {
		return fmt.Errorf("make scratch directory: %w", err)
	}
	return nil
}

package relay

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/batchfleet/batchfleet/flock"
	"github.com/batchfleet/batchfleet/internal/disk"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/safefile"
	"github.com/batchfleet/batchfleet/storage"
)

// directory is relay_runtime: the tasks on disk. Its methods may be called concurrently, for different tasks.
type directory struct {
	path string // absolute
	lock *os.File
	root *os.Root // tasks/
	log  *slog.Logger
}

const (
	tasksDir      = "tasks"
	quarantineDir = "_quarantine" // in tasks/
	inputDir      = "input"
	workDir       = "work"
	artifactsDir  = "artifacts"
	logsDir       = "logs"
	tmpDir        = "tmp"
	newPrefix     = "new-" // of directories in tmp/ that become tasks
	taskFile      = "task.json"
	requestFile   = "request.json"
	lockFile      = "lock"

	maxTaskFile    = 16 << 20 // bytes; 10 000 artifacts, the most that a kind may make, have some 4 MiB
	maxRequestFile = 4 * maxBody
)

// gitignore keeps what the seed names, and all else, out of version control.
const gitignore = "# What a relay keeps is no part of a project.\n/*\nlogs/\ntmp/\ntasks/**/artifacts/\nmodel_cache/\n"

// ErrInUse means that another relay uses the directory.
var ErrInUse = errors.New("another relay uses it: stop that one, or give this one a directory of its own")

// openDirectory makes what is missing in a directory, which others may not write to, and locks it.
func openDirectory(path string, log *slog.Logger) (d *directory, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if err := safefile.Dir(path); err != nil {
		return nil, err
	}
	lock, err := safefile.OpenOrMake(filepath.Join(path, lockFile))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = lock.Close() // nothing was written
		}
	}()
	if err := flock.Lock(lock); errors.Is(err, flock.ErrLocked) {
		return nil, ErrInUse
	} else if err != nil {
		return nil, err
	}
	for _, sub := range []string{"config", logsDir, tmpDir, "model_cache", tasksDir, filepath.Join(tasksDir, quarantineDir)} {
		if err := safefile.Dir(filepath.Join(path, sub)); err != nil {
			return nil, err
		}
	}
	ignore := filepath.Join(path, ".gitignore")
	if _, err := os.Lstat(ignore); errors.Is(err, fs.ErrNotExist) {
		if err := safefile.Replace(ignore, []byte(gitignore)); err != nil {
			return nil, err
		}
	}
	d = &directory{path: path, lock: lock, log: log}
	if err := d.sweepTemp(); err != nil {
		return nil, err
	}
	d.root, err = os.OpenRoot(filepath.Join(path, tasksDir))
	return d, err
}

// RunsThere is how CheckDir begins when a relay uses the directory.
const RunsThere = "a relay runs there"

// CheckDir returns what there is to say of a relay's directory, or why no relay can be started there. It makes none: where
// there is none yet it tries another one beside it, or in it, and removes that.
func CheckDir(path string, minFree int64) (found string, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	if _, err := os.Lstat(filepath.Join(path, lockFile)); errors.Is(err, fs.ErrNotExist) {
		tried, err := tryDir(path)
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, safefile.RemoveAll(tried)) }()
		path = tried
	}
	d, err := openDirectory(path, slog.New(slog.DiscardHandler))
	if errors.Is(err, ErrInUse) {
		found = RunsThere + ", and "
	} else if err != nil {
		return "", err
	} else if err := d.close(); err != nil {
		return "", err
	}
	free, err := disk.Free(path)
	if err == nil && free < minFree {
		err = fmt.Errorf("%d bytes are free, and %d are wanted", free, minFree)
	}
	return found + fmt.Sprintf("%d bytes are free", free), err
}

// tryDir makes an empty directory where a relay could make the one at path, or in that.
func tryDir(path string) (tried string, err error) {
	above := path
	info, err := os.Lstat(above)
	for errors.Is(err, fs.ErrNotExist) && above != filepath.Dir(above) {
		above = filepath.Dir(above)
		info, err = os.Lstat(above)
	}
	if err == nil && above == path {
		err = safefile.CheckDir(path, info)
	}
	if err != nil {
		return "", err
	}
	tried, err = os.MkdirTemp(above, ".relay-check-")
	if wrong, ok := errors.AsType[*fs.PathError](err); ok {
		wrong.Path = path // the random name says nothing to a reader
	}
	return tried, err
}

func (d *directory) close() error { return errors.Join(d.root.Close(), d.lock.Close()) }

// sweepTemp deletes tasks and files that were never finished.
func (d *directory) sweepTemp() error {
	entries, err := os.ReadDir(filepath.Join(d.path, tmpDir))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), newPrefix) {
			err = errors.Join(err, safefile.RemoveAll(filepath.Join(d.path, tmpDir, e.Name())))
		}
	}
	return err
}

// of is the path of something of a task.
func (d *directory) of(id jobs.ID, parts ...string) string {
	return filepath.Join(append([]string{d.path, tasksDir, string(id)}, parts...)...)
}

// logFile is the path of the log of a task.
func (d *directory) logFile(id jobs.ID) string {
	return filepath.Join(d.path, logsDir, string(id)+".log")
}

// create makes the directory of a task: when it returns nil, all of it survives a power cut, and after an
// error nothing of it is there. addInputs, which may be nil, puts further files into its input directory.
func (d *directory) create(t *Task, request []byte, addInputs func(dir string) error) (err error) {
	temp := filepath.Join(d.path, tmpDir, newPrefix+rand.Text())
	defer func() {
		if err != nil {
			_ = safefile.RemoveAll(temp) // what is left is deleted at the next start
		}
	}()
	input := filepath.Join(temp, inputDir)
	for _, dir := range []string{temp, input} { // the others are made when it is about to run: see prepare
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if addInputs != nil {
		if err := addInputs(input); err != nil {
			return err
		}
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := writeFiles([]string{input, temp},
		file{filepath.Join(input, requestFile), request},
		file{filepath.Join(temp, taskFile), text},
	); err != nil {
		return err
	}
	if err := os.Rename(temp, d.of(t.ID)); err != nil {
		return err
	}
	temp = d.of(t.ID) // to be deleted if that is not on disk
	return safefile.SyncDir(filepath.Join(d.path, tasksDir))
}

type file struct {
	path string
	text []byte
}

// writeFiles makes files, and syncs them with directories that they are in. All are synced at once: that takes a disk
// hardly longer than one of them.
func writeFiles(dirs []string, files ...file) (err error) {
	var open []*os.File
	for _, file := range files {
		f, made := os.OpenFile(file.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err = errors.Join(err, made); made != nil {
			break
		}
		open = append(open, f)
		_, wrote := f.Write(file.text)
		err = errors.Join(err, wrote)
	}
	if err != nil {
		for _, f := range open {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	var syncing errgroup.Group
	for _, f := range open {
		syncing.Go(func() error { return errors.Join(f.Sync(), f.Close()) })
	}
	for _, dir := range dirs {
		syncing.Go(func() error { return safefile.SyncDir(dir) })
	}
	return syncing.Wait()
}

// save replaces the task.json of a task. What is not finished lies in tmp/, where the next start deletes it.
func (d *directory) save(t *Task) (err error) {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	temp := filepath.Join(d.path, tmpDir, newPrefix+rand.Text())
	defer func() {
		if err != nil {
			_ = os.Remove(temp) // it may have its name already
		}
	}()
	if err := errors.Join(d.place(t.ID), writeFiles(nil, file{temp, text})); err != nil {
		return err
	}
	if err := os.Rename(temp, d.of(t.ID, taskFile)); err != nil {
		return err
	}
	return safefile.SyncDir(d.of(t.ID))
}

// place makes the directory of a task again that something else has deleted or replaced, and takes away what is no file
// in the place of task.json: the task could not end otherwise, and would keep its slot.
func (d *directory) place(id jobs.ID) error {
	info, err := os.Lstat(d.of(id))
	if err == nil && !info.IsDir() {
		d.quarantine(d.of(id), errors.New("it is no directory"))
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		return errors.Join(os.Mkdir(d.of(id), 0o700), safefile.SyncDir(d.of("")))
	}
	if info, err := os.Lstat(d.of(id, taskFile)); err == nil && info.IsDir() {
		d.quarantine(d.of(id, taskFile), errors.New("it is a directory"))
	}
	return err
}

// read returns a small file of a task: a regular one.
func (d *directory) read(id jobs.ID, limit int64, parts ...string) ([]byte, error) {
	// The directory of a task may have been replaced by a link.
	if info, err := os.Lstat(d.of(id)); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is no directory", id)
	}
	return safefile.Read(d.of(id, parts...), limit)
}

// load reads all tasks, some at a time. What cannot be read is moved to the quarantine, and counted.
func (d *directory) load(ctx context.Context) (tasks []*Task, bad int, err error) {
	entries, err := os.ReadDir(d.of(""))
	if err != nil {
		return nil, 0, err
	}
	read := make([]*Task, len(entries))
	var loading sync.WaitGroup
	for share, all := 0, 2*runtime.GOMAXPROCS(0); share < all; share++ {
		loading.Go(func() {
			var text bytes.Buffer
			for i := share; i < len(entries) && ctx.Err() == nil; i += all {
				name := entries[i].Name()
				// A relay that is killed while it checks the store leaves a file.
				unfinished := entries[i].Type().IsRegular() && strings.HasPrefix(name, storage.TempPrefix)
				if name == quarantineDir || unfinished && os.Remove(d.of("", name)) == nil {
					continue
				}
				t, err := d.loadOne(entries[i], &text)
				if read[i] = t; err != nil {
					d.quarantine(d.of("", name), err)
				}
			}
		})
	}
	loading.Wait()
	for i, t := range read {
		switch {
		case t != nil:
			tasks = append(tasks, t)
		case entries[i].Name() != quarantineDir:
			bad++
		}
	}
	return tasks, bad, context.Cause(ctx)
}

// loadOne reads a task by way of a buffer.
func (d *directory) loadOne(entry fs.DirEntry, text *bytes.Buffer) (*Task, error) {
	if !isID(entry.Name()) {
		return nil, errors.New("its name is no id of a task")
	}
	if !entry.IsDir() {
		return nil, errors.New("it is no directory")
	}
	id := jobs.ID(entry.Name())
	f, err := safefile.Open(d.of(id, taskFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text.Reset()
	if n, err := text.ReadFrom(io.LimitReader(f, maxTaskFile+1)); err != nil {
		return nil, err
	} else if n > maxTaskFile {
		return nil, fmt.Errorf("%s is longer than %d bytes", taskFile, maxTaskFile)
	}
	return parse(id, text.Bytes())
}

// quarantine moves something that cannot be used out of the way.
func (d *directory) quarantine(path string, why error) {
	to := filepath.Join(tasksDir, quarantineDir, filepath.Base(path)+"-"+rand.Text()[:6])
	err := os.Rename(path, filepath.Join(d.path, to))
	d.log.Error("a task, or its log, cannot be read and is left out", "name", jobs.VisibleLine(filepath.Base(path)), "err", why, "moved_to", to, "move_err", err)
}

// remove deletes a task with its log.
func (d *directory) remove(id jobs.ID) error {
	// First out of the way: half a directory would be a task that cannot be read.
	temp := filepath.Join(d.path, tmpDir, newPrefix+rand.Text())
	if err := os.Rename(d.of(id), temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(safefile.RemoveAll(temp), safefile.RemoveAll(d.logFile(id)))
}

// empty deletes what an attempt has left, or something else has put in the place of its directories.
func (d *directory) empty(id jobs.ID) (err error) {
	for _, sub := range []string{workDir, artifactsDir} {
		path := d.of(id, sub)
		err = errors.Join(err, safefile.RemoveAll(path), os.Mkdir(path, 0o700))
	}
	return err
}

// prepare makes the directories that a task needs to run, also those that something else has deleted or replaced: without
// them it would wait forever.
func (d *directory) prepare(id jobs.ID) error {
	for _, sub := range []string{workDir, artifactsDir} {
		if info, err := os.Lstat(d.of(id, sub)); err != nil || !info.IsDir() {
			return d.empty(id)
		}
	}
	return nil
}

package exec

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/batchfleet/batchfleet/scratch"
)

// exes are copies of the programs of ExeDir that attempts run. Each attempt has a hard link of one, which is as fast as it
// can be: to write a program for each attempt is slow, and to run a file that was just written can fail (ETXTBSY), for
// another process that is being started has it open for writing until it has become its own program.
type exes struct {
	dir  string
	lock *os.File

	mu    sync.Mutex
	files map[string]*exe
}

// exe is the copy of one program.
type exe struct {
	mu     sync.Mutex
	path   string
	source fs.FileInfo // what was copied; nil if there is no copy
	copied fs.FileInfo // the copy, as it was made
}

const exesPrefix = ".exe-"

func openExes(jobs string) (*exes, error) {
	for {
		dir := filepath.Join(jobs, exesPrefix+rand.Text()[:10])
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		lock, err := lockDir(dir)
		if errors.Is(err, errGone) { // the sweep of another process came before the lock
			continue
		}
		if err != nil {
			return nil, errors.Join(err, os.Remove(dir))
		}
		return &exes{dir: dir, lock: lock, files: map[string]*exe{}}, nil
	}
}

// close deletes the copies.
func (x *exes) close() error {
	defer x.lock.Close()
	return scratch.RemoveAll(x.dir)
}

// there makes the directory again if it was deleted: some systems delete what is old in the directories of temporary files.
func (x *exes) there() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, err := os.Lstat(x.dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Mkdir(x.dir, 0o700); err != nil {
		return err
	}
	lock, err := lockDir(x.dir)
	if err != nil {
		return err
	}
	_ = x.lock.Close() // of the one that was deleted
	x.lock = lock
	return nil
}

func (x *exes) get(file string) *exe {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.files[file]
	if e == nil {
		e = &exe{path: filepath.Join(x.dir, file)}
		x.files[file] = e
	}
	return e
}

// programError says why a program of ExeDir cannot be used. It wraps [fs.ErrNotExist] if there is none.
type programError struct{ error }

func (e *programError) Unwrap() error { return e.error }

var errNotExecutable = errors.New("it must be a regular file that may be executed (chmod +x)")

// link is a program in a work directory.
type link struct {
	name string
	file fs.FileInfo
}

// link puts a program into a work directory, unless it is there. With again set, the copy is made again before: something
// has it open for writing. The error is a [programError] or one of the disk.
func (x *exes) link(from *os.Root, name string, w *workDir, again bool) error {
	e := x.get(name)
	e.mu.Lock()
	defer e.mu.Unlock()
	source, err := from.Stat(name)
	if err == nil && (!source.Mode().IsRegular() || source.Mode().Perm()&0o111 == 0) {
		err = errNotExecutable
	}
	if err != nil {
		return &programError{err}
	}
	if again || !e.isCopyOf(source) {
		if err := x.there(); err != nil {
			return err
		}
		if err := e.copy(from, name, source); err != nil {
			return err
		}
	}
	if w.exe.name == name && sameContent(w.exe.file, e.copied) {
		return nil
	}
	if err := w.removeExe(); err != nil {
		return err
	}
	to := filepath.Join(w.path, name)
	made := e.copied
	if err := os.Link(e.path, to); err != nil { // the file system has no links, or no more of this file
		if made, err = copyExe(from, name, to); err != nil {
			return err
		}
	}
	w.exe = link{name, made}
	return nil
}

// removeExe deletes the program that a job before has left in a work directory.
func (w *workDir) removeExe() error {
	if w.exe.name == "" {
		return nil
	}
	err := w.root.Remove(w.exe.name)
	w.exe = link{}
	return err
}

// isCopyOf reports whether the copy is of this file, and as it was made. A script can write to its own link.
func (e *exe) isCopyOf(source fs.FileInfo) bool {
	if e.copied == nil || !sameContent(e.source, source) {
		return false
	}
	now, err := os.Lstat(e.path)
	return err == nil && sameContent(e.copied, now)
}

func sameContent(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

func (e *exe) copy(from *os.Root, file string, source fs.FileInfo) (err error) {
	e.copied = nil
	temp := e.path + "-" + rand.Text()[:10]
	info, err := copyExe(from, file, temp)
	if err == nil {
		err = os.Rename(temp, e.path)
	}
	if err != nil {
		_ = os.Remove(temp) // it may not be there
		return err
	}
	e.source, e.copied = source, info
	return nil
}

// copyExe copies a program so that it can be run at once.
func copyExe(from *os.Root, file, to string) (info fs.FileInfo, err error) {
	src, err := from.Open(file)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o500)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(dst, src) // on some file systems no byte is copied
	if err == nil {
		info, err = dst.Stat()
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return nil, fmt.Errorf("copy program: %w", err)
	}
	// A process that was being started meanwhile had it open for writing, too. The lock is held until such a one has become
	// its own program and so has closed it.
	syscall.ForkLock.RLock()
	syscall.ForkLock.RUnlock() //nolint:staticcheck // see above
	return info, nil
}

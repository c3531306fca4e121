package storage

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage/internal/transfer"
)

// The modes of new directories and files, before the umask. The directory is
// shared with containers that run as other users, such as the frontend, so who
// else may read and write is the operator's choice, by the umask: with the usual
// 022 everyone reads and only the owner writes.
const (
	dirMode  = 0o777
	fileMode = 0o666
)

// Local is a [Store] in a directory of the local file system. No name leads out of
// the directory, not by symbolic links either.
//
// An object and a "directory" of objects cannot have the same name here: with
// "a" stored, putting "a/b" fails with [fs.ErrInvalid].
type Local struct {
	dir  string
	root atomic.Pointer[os.Root] // replaced when the directory has been

	syncing dirSyncs
}

// NewLocal returns the store in dir, which is created if it is missing.
func NewLocal(dir string) (*Local, error) {
	abs, err := filepath.Abs(dir) // a later chdir must not move the store
	if err != nil {
		return nil, fmt.Errorf("open storage directory: %w", err)
	}
	if err := os.MkdirAll(abs, dirMode); err != nil {
		return nil, fmt.Errorf("open storage directory: %w: %w", jobs.ErrUnavailable, err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("open storage directory: %w: %w", jobs.ErrUnavailable, err)
	}
	l := &Local{dir: abs}
	l.root.Store(root)
	return l, nil
}

// current returns the directory that exists now. If it was made again or mounted over
// since it was opened, current opens it, which writes nothing. The garbage collector
// closes the old root: others may still be using it.
func (l *Local) current() (*os.Root, error) {
	for l.replaced() {
		old := l.root.Load()
		root, err := os.OpenRoot(l.dir)
		if err != nil {
			// Without the error's type: fs.ErrNotExist would be about an object.
			return nil, fmt.Errorf("storage directory is gone: %w: %s", jobs.ErrUnavailable, err.Error())
		}
		if l.root.CompareAndSwap(old, root) {
			return root, nil
		}
		_ = root.Close() // another call was faster, perhaps with a newer one
	}
	return l.root.Load(), nil
}

// Close releases the directory. Objects that are open stay readable.
func (l *Local) Close() error { return l.root.Load().Close() }

var _ Ranger = (*Local)(nil)

// Open implements [Store].
func (l *Local) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	return l.OpenAt(ctx, name, 0)
}

// OpenAt implements [Ranger].
func (l *Local) OpenAt(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	if err := cmp.Or(localName(name), context.Cause(ctx)); err != nil {
		return nil, err
	}
	// Without O_NONBLOCK, opening a FIFO would hang.
	root := l.root.Load()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		// The error of a socket, or of a device without a driver, looks like trouble
		// with the disk.
		if !errors.Is(err, fs.ErrNotExist) {
			if info, statErr := root.Stat(name); statErr == nil && !info.IsDir() && regular(info) != nil {
				err = regular(info)
			}
		}
		return nil, l.fail("open", name, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = regular(info)
	}
	if err == nil && offset > 0 {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, l.fail("open", name, err)
	}
	return transfer.NewBody(ctx, name, f), nil
}

// Stat implements [Store].
func (l *Local) Stat(ctx context.Context, name string) (Info, error) {
	if err := cmp.Or(localName(name), context.Cause(ctx)); err != nil {
		return Info{}, err
	}
	root, err := l.current() // what exists now counts
	if err != nil {
		return Info{}, fmt.Errorf("stat object %s: %w", name, err)
	}
	info, err := root.Stat(name)
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		return Info{}, l.fail("stat", name, err)
	}
	return Info{Size: info.Size(), Modified: info.ModTime()}, nil
}

// Delete implements [Store]. Directories it leaves empty are removed too.
func (l *Local) Delete(ctx context.Context, name string) error {
	if err := cmp.Or(localName(name), context.Cause(ctx)); err != nil {
		return err
	}
	root := l.root.Load()
	// Lstat first: Remove would also delete an empty directory.
	info, err := root.Lstat(name)
	if err == nil && info.IsDir() {
		return nil // no object
	}
	if err == nil {
		err = root.Remove(name)
	}
	if err != nil {
		if err = l.fail("delete", name, err); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	removeEmpty(root, path.Dir(name))
	return nil
}

// removeEmpty removes dir and the directories above it, up to the first that is not
// empty, which Remove refuses.
func removeEmpty(root *os.Root, dir string) {
	for dir != "." && root.Remove(dir) == nil {
		dir = path.Dir(dir)
	}
}

// Check implements [Store]. It writes a file of one block and removes it. A
// directory that was deleted or mounted again since it was opened is opened again.
func (l *Local) Check(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := l.tryWrite(); err != nil {
		return fmt.Errorf("check storage directory %s: %w: %w; it must exist, have free space and be writable for user id %d",
			l.dir, jobs.ErrUnavailable, err, os.Getuid())
	}
	return nil
}

func (l *Local) tryWrite() error {
	if l.replaced() {
		if err := os.MkdirAll(l.dir, dirMode); err != nil {
			return err
		}
	}
	root, err := l.current()
	if err != nil {
		return err
	}
	name := tempName()
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return withoutPath(err)
	}
	// An empty file can be created on a full disk: fill a block.
	_, err = f.Write(make([]byte, 4096))
	return errors.Join(withoutPath(err), withoutPath(f.Close()), withoutPath(root.Remove(name)))
}

// withoutPath returns what a call on a file of a random name says, without that name: the same trouble
// has the same text each time.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// replaced reports whether the directory is no longer the one that was opened:
// deleted, or hidden by a mount.
func (l *Local) replaced() bool {
	opened, err := l.root.Load().Stat(".")
	if err != nil {
		return true
	}
	now, err := os.Stat(l.dir)
	return err != nil || !os.SameFile(opened, now)
}

var (
	errNotRegular = errors.New("not a regular file")
	errIsDir      = fmt.Errorf("a directory of objects: %w", fs.ErrNotExist)
)

func regular(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return errIsDir
	case !info.Mode().IsRegular():
		return errNotRegular
	}
	return nil
}

// fail returns err as one of the four kinds in the package comment.
func (l *Local) fail(verb, name string, err error) error {
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		// In a deleted directory nothing exists: that is not about the object.
		if l.replaced() {
			return fmt.Errorf("%s object %s: storage directory %s is gone: %w", verb, name, l.dir, jobs.ErrUnavailable)
		}
		return fmt.Errorf("%s object %s: %w", verb, name, fs.ErrNotExist)
	case !errors.As(err, &errno):
		// Not from the system: os.Root refuses a link that leaves the
		// directory, or it is no regular file.
		return fmt.Errorf("%s object %s: %w: %w", verb, name, fs.ErrInvalid, err)
	case errno == syscall.ELOOP, errno == syscall.ENAMETOOLONG, errno == syscall.EILSEQ:
		return fmt.Errorf("%s object %s: %w: %w", verb, name, fs.ErrInvalid, err)
	}
	return fmt.Errorf("%s object %s: %w: %w", verb, name, jobs.ErrUnavailable, err)
}

// localName is ValidName with a better word for names that belong to a bucket.
func localName(name string) error {
	if namesBucket(name) {
		return BadName(name, "is in a bucket, but the storage type is LOCAL")
	}
	return ValidName(name)
}

func tempName() string { return TempPrefix + rand.Text() }

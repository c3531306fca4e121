package scratch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Trees are walked by open directories and single names, never by paths: a program can make
// trees that are deeper than any path may be long, and put a link where a directory was.

const (
	openDirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	namesAtOnce  = 1024
	// maxDepth is how many directories are open at the same time while a tree is deleted. What is
	// deeper is moved to the top first.
	maxDepth = 64
	// removePasses is how often a tree is gone through in which something cannot be deleted, or is made
	// meanwhile.
	removePasses = 20
)

// checkOwner returns an error if a directory belongs to another user.
func checkOwner(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if int(st.Uid) != os.Geteuid() {
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it belongs to user %d and not to this one (%d): take another WORK_DIR", st.Uid, os.Geteuid())}
	}
	return nil
}

// tick is longer than a step of the clock by which a file system notes changes, which is 10 ms at most.
const tick = 50 * time.Millisecond

// IsEmpty reports whether the directory at path is still this one, empty and as it was made. One that has not
// changed since it was found empty costs one call.
func (s *DirState) IsEmpty(path string) bool {
	var st unix.Stat_t
	if s.changed != 0 && unix.Lstat(path, &st) == nil && s.id == (fileID{st.Dev, st.Ino}) && st.Ctim.Nano() == s.changed {
		return true
	}
	now, names, ok := Inspect(path)
	if !ok || now.id != s.id || names > 0 {
		return false
	}
	*s = now
	return true
}

// Inspect looks at a directory that should be as it was made: it returns its state and how many names are in it. It is
// not ok if that is no directory, has another mode, or has extended attributes that are not of the system's own security
// module, such as an access control list.
func Inspect(path string) (now DirState, names int, ok bool) {
	began := time.Now()
	fd, err := unix.Open(path, openDirFlags, 0)
	if err != nil {
		return now, 0, false
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode != unix.S_IFDIR|0o700 {
		return now, 0, false
	}
	buf := make([]byte, 512)
	n, err := unix.Flistxattr(fd, buf)
	if err != nil && !errors.Is(err, unix.ENOTSUP) {
		return now, 0, false
	}
	for name := range bytes.FieldsFuncSeq(buf[:max(n, 0)], func(c rune) bool { return c == 0 }) {
		if !bytes.HasPrefix(name, []byte("security.")) {
			return now, 0, false
		}
	}
	// One call returns all that may be here, or enough to see that there is more.
	n, err = unix.Getdents(fd, buf)
	if err != nil {
		return now, 0, false
	}
	_, names, _ = unix.ParseDirent(buf[:n], -1, nil)
	now.id = fileID{st.Dev, st.Ino}
	if changed := st.Ctim.Nano(); began.UnixNano()-changed > int64(tick) {
		now.changed = changed
	}
	return now, names, true
}

// rename is [os.Rename] without its check of whether the new path is a directory already.
func rename(from, to string) error { return unix.Rename(from, to) }

// renameNew renames a file, unless the new name is taken: then the error is [fs.ErrExist].
func renameNew(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}

// links returns how many names a file has.
func links(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Nlink)
	}
	return 0
}

// holdDir takes a shared lock on a directory until the file is closed. systemd-tmpfiles, which
// deletes old files from directories for temporary files, leaves a directory with a lock alone.
func holdDir(path string) (*os.File, error) {
	f, err := os.OpenFile(path, openDirFlags, 0)
	if err != nil {
		return nil, err
	}
	_ = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) // some file systems have none
	return f, nil
}

// removeTree deletes path with all that is in it. It opens directories that were closed,
// and follows no links. It needs few open files, however deep the tree is. It gives up when it has
// taken so long: a program may make files faster than they can be deleted.
func removeTree(path string, patience time.Duration) error {
	err := unix.Unlink(path)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	top, err := openDir(unix.AT_FDCWD, path)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer closeFile(top)
	x := remover{top: top, end: time.Now().Add(patience)}
	for left := removePasses; ; left-- {
		x.err, x.moved = nil, false
		x.empty(top, 0)
		err := unix.Rmdir(path)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if x.moved {
			left++ // what was moved is to be deleted still
		}
		if left <= 0 || x.late() {
			return &fs.PathError{Op: "delete", Path: path, Err: errors.Join(err, x.err)}
		}
		if !x.moved {
			time.Sleep(time.Millisecond) // somebody writes to it, or it cannot be deleted
		}
	}
}

// openDir opens a directory in another one, after its mode was changed if need be.
func openDir(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, openDirFlags, 0)
	if errors.Is(err, unix.EACCES) {
		if err := chmodDir(at, name); err != nil {
			return nil, err
		}
		fd, err = unix.Openat(at, name, openDirFlags, 0)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// chmodDir lets its owner use a directory, and never what a link leads to.
func chmodDir(at int, name string) error {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	// Neither fchmod(2) nor fchmodat(2) before Linux 6.6 can do this.
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
}

// remover deletes what is in a tree.
type remover struct {
	top   *os.File
	count int   // of directories that were moved to the top
	moved bool  // one was, in this pass
	err   error // the last of this pass
	end   time.Time
}

func (x *remover) late() bool { return time.Now().After(x.end) }

// empty deletes what is in dir, as far as it can.
func (x *remover) empty(dir *os.File, depth int) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		x.err = err
		return
	}
	for !x.late() {
		names, err := dir.Readdirnames(namesAtOnce)
		for _, name := range names {
			if err := x.remove(dir, name, depth); err != nil && !errors.Is(err, unix.ENOENT) {
				x.err = fmt.Errorf("%q: %w", name, err)
			}
		}
		if err != nil { // io.EOF; of another error Rmdir tells
			return
		}
	}
}

func (x *remover) remove(dir *os.File, name string, depth int) error {
	at := int(dir.Fd())
	err := unix.Unlinkat(at, name, 0)
	if errors.Is(err, unix.EACCES) { // dir may not be written to
		_ = unix.Fchmod(at, 0o700)
		err = unix.Unlinkat(at, name, 0)
	}
	if !errors.Is(err, unix.EISDIR) {
		return err
	}
	if unix.Unlinkat(at, name, unix.AT_REMOVEDIR) == nil {
		return nil
	}
	sub, err := openDir(at, name)
	if err != nil {
		return err
	}
	defer closeFile(sub)
	if depth == maxDepth {
		return x.moveUp(at, name, sub)
	}
	x.empty(sub, depth+1)
	return unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
}

// moveUp moves a directory to the top of the tree, where a later pass deletes it.
func (x *remover) moveUp(at int, name string, sub *os.File) error {
	_ = unix.Fchmod(int(sub.Fd()), 0o700) // it is written to: its ".." changes
	_ = unix.Fchmod(int(x.top.Fd()), 0o700)
	for {
		x.count++
		err := unix.Renameat2(at, name, int(x.top.Fd()), "batchfleet-deep-"+strconv.Itoa(x.count), unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		x.moved = x.moved || err == nil
		return err
	}
}

// level is a directory on the way from the top to the one that is being measured.
type level struct {
	id   fileID
	dirs []string // in it, that were not measured yet
}

// errMoved says that a directory was moved while it was measured.
var errMoved = errors.New("a directory was moved while it was measured")

// tree adds what is in a directory. One directory is open at a time, however deep the tree is.
func (m *meter) tree(path string) error {
	dir, err := unix.Openat(unix.AT_FDCWD, path, openDirFlags, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	// The errors are of single directories; the last one is returned.
	var last error
	failed := func(err error) {
		if err != nil && !errors.Is(err, unix.ENOENT) { // gone meanwhile
			last = &fs.PathError{Op: "measure", Path: path, Err: err}
		}
	}
	var levels []level
	enter := func(fd int) {
		here, err := m.dir(fd)
		failed(err)
		levels, dir = append(levels, here), fd
	}
	enter(dir)
	for {
		here := &levels[len(levels)-1]
		if n := len(here.dirs); n > 0 {
			name := here.dirs[n-1]
			here.dirs = here.dirs[:n-1]
			sub, err := unix.Openat(dir, name, openDirFlags, 0)
			if err != nil {
				if !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) { // it was replaced meanwhile
					failed(err)
				}
				continue
			}
			_ = unix.Close(dir)
			enter(sub)
			continue
		}
		levels = levels[:len(levels)-1]
		if len(levels) == 0 {
			_ = unix.Close(dir)
			return last
		}
		up, err := unix.Openat(dir, "..", openDirFlags, 0)
		_ = unix.Close(dir)
		if err != nil {
			return &fs.PathError{Op: "measure", Path: path, Err: err}
		}
		dir = up
		if id, err := idOf(up); err != nil || id != levels[len(levels)-1].id {
			_ = unix.Close(dir)
			return &fs.PathError{Op: "measure", Path: path, Err: errors.Join(err, errMoved)}
		}
	}
}

func idOf(fd int) (fileID, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return fileID{st.Dev, st.Ino}, err
}

// dir adds what is in an open directory, and returns the directories in it. The error is
// that of the last file that could not be counted.
func (m *meter) dir(fd int) (here level, failed error) {
	if here.id, failed = idOf(fd); failed != nil {
		return here, failed
	}
	buf := make([]byte, 32<<10)
	var names []string
	for {
		n, err := unix.Getdents(fd, buf)
		if n <= 0 || err != nil {
			return here, cmp.Or(err, failed)
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			var st unix.Stat_t
			if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				if !errors.Is(err, unix.ENOENT) { // gone meanwhile
					failed = err
				}
				continue
			}
			if m.add(&st) {
				here.dirs = append(here.dirs, name)
			}
		}
	}
}

// add counts a file and reports whether it is a directory.
func (m *meter) add(st *unix.Stat_t) bool {
	mode := st.Mode & unix.S_IFMT
	if mode != unix.S_IFDIR && st.Nlink > 1 {
		id := fileID{st.Dev, st.Ino}
		if m.linked[id] {
			return false
		}
		m.linked[id] = true
	}
	m.usage.Files++
	m.usage.Bytes += st.Blocks * 512
	if mode == unix.S_IFREG {
		m.usage.Apparent += st.Size
	}
	return mode == unix.S_IFDIR
}

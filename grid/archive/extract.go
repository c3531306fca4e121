package archive

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
)

// Limits of an archive. A zero stands for the default beside it.
type Limits struct {
	Files int   // files and directories: 10 000
	Bytes int64 // bytes of all files: 4 GiB
	Ratio int64 // bytes of all files to bytes of the archive, if they are more than 16 MiB: 200
}

const (
	anyRatio     = 16 << 20 // bytes of all files up to which the ratio does not matter
	maxDirectory = 8 << 20  // bytes of the central directory, and of what follows it
)

// ErrRefused means that an archive is not extracted because of its contents.
var ErrRefused = errors.New("the archive is not safe to extract")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, jobs.VisibleLine(fmt.Sprintf(format, args...)))
}

// Extract writes the files of an archive of size bytes into a directory, which is made if there is none, and must be empty. It returns how many files it
// has written. After an error the directory is as it was before. The error wraps [ErrRefused] if an entry is a link or another special file, has a name that
// is not valid on every system, or goes beyond a limit.
func Extract(r io.ReaderAt, size int64, dir string, l Limits) (files int, err error) {
	l.Files, l.Bytes, l.Ratio = cmp.Or(l.Files, 10_000), cmp.Or(l.Bytes, 4<<30), cmp.Or(l.Ratio, 200)
	list, err := open(r, size)
	if err != nil {
		return 0, err
	}
	if err := l.check(list, size); err != nil {
		return 0, err
	}
	root, made, err := empty(dir)
	if err != nil {
		return 0, fmt.Errorf("extract into %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeAll(root))
		}
		err = errors.Join(err, root.Close())
		if err != nil && made {
			_ = os.Remove(dir) // it is empty
		}
	}()
	for _, f := range list {
		if name, isDir := strings.CutSuffix(f.Name, "/"); isDir {
			err = root.MkdirAll(name, 0o755)
		} else {
			err = extract(root, f)
			files++
		}
		if err != nil {
			return 0, fmt.Errorf("extract %s: %w", jobs.VisibleLine(f.Name), err)
		}
	}
	return files, nil
}

// open reads the central directory.
func open(r io.ReaderAt, size int64) ([]*zip.File, error) {
	bounded := &boundedReader{r: r, rest: maxDirectory}
	z, err := zip.NewReader(bounded, size)
	bounded.rest = -1 // the contents have limits of their own
	switch {
	case bounded.over:
		return nil, refuse("its central directory has more than %d bytes", maxDirectory)
	case err != nil:
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	return z.File, nil
}

// boundedReader fails when more than rest bytes are read; -1 is no limit.
type boundedReader struct {
	r    io.ReaderAt
	rest int64
	over bool
}

func (b *boundedReader) ReadAt(p []byte, at int64) (int, error) {
	if b.rest >= 0 {
		if b.rest -= int64(len(p)); b.rest < 0 {
			b.rest, b.over = 0, true
			return 0, errors.New("too much was read")
		}
	}
	return b.r.ReadAt(p, at)
}

// most returns how many bytes the files may have.
func (l Limits) most(size int64) int64 {
	return min(l.Bytes, max(anyRatio, size*l.Ratio))
}

// check returns why the archive is refused, by its central directory.
func (l Limits) check(list []*zip.File, size int64) error {
	if len(list) > l.Files {
		return refuse("it has %d files and directories, at most %d", len(list), l.Files)
	}
	names := newNames()
	total := uint64(0)
	for _, f := range list {
		dir := strings.HasSuffix(f.Name, "/")
		switch mode := f.Mode(); {
		case mode.IsDir() != dir || !dir && !mode.IsRegular():
			return refuse("%.80q is no file and no directory, but %s", f.Name, mode)
		case f.Flags&1 != 0:
			return refuse("%.80q is encrypted", f.Name)
		case f.Method != zip.Store && f.Method != zip.Deflate:
			return refuse("%.80q is compressed by method %d", f.Name, f.Method)
		case dir && f.UncompressedSize64 > 0:
			return refuse("the directory %.80q has a content", f.Name)
		}
		if problem := names.add(f.Name); problem != "" {
			return refuse("%.80q %s", f.Name, problem)
		}
		if len(names.seen) > l.Files {
			return refuse("it has more than %d files and directories", l.Files)
		}
		// Compared one by one, because the sum may overflow.
		if most := uint64(l.most(size)); f.UncompressedSize64 > most || total+f.UncompressedSize64 > most {
			return refuse("its files have more than %d bytes, and the archive has %d", most, size)
		}
		total += f.UncompressedSize64
	}
	return nil
}

// empty opens an empty directory, or makes it, and returns whether it was made.
func empty(dir string) (root *os.Root, made bool, err error) {
	err = os.Mkdir(dir, 0o755) //nolint:gosec // as others do that make directories for people
	made = err == nil
	if err != nil && !os.IsExist(err) {
		return nil, false, err
	}
	root, err = os.OpenRoot(dir)
	if err != nil {
		return nil, made, err
	}
	d, err := root.Open(".")
	if err == nil {
		_, err = d.ReadDir(1)
		_ = d.Close() // it was only read
		if err == nil {
			err = errors.New("there is something in it: give a directory that is empty, or that does not exist")
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, made, errors.Join(err, root.Close())
	}
	return root, made, nil
}

// removeAll removes everything in a directory.
func removeAll(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	for _, name := range names {
		err = errors.Join(err, root.RemoveAll(name))
	}
	return err
}

// extract writes one file. Its size was checked.
func extract(root *os.Root, f *zip.File) error {
	if dir := path.Dir(f.Name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	from, err := f.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from) // package zip fails if the content is longer than the central directory says
	return errors.Join(err, to.Close())
}

package exec

import (
	"archive/zip"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/processor/artifact"
)

const (
	maxDepth    = 64 // of directories
	namesAtOnce = 1024
)

// entry is a file that goes into the archive.
type entry struct {
	name string // with "/"
	path string // in the work directory; empty for a stream
	mode fs.FileMode
	size int64
	from *stream
}

// archiveName is what an archive is called that is not in its frame.
const archiveName = "output.zip"

// newFiles returns the regular files that a program has made or changed. The error says which limit they are over.
func (a *attempt) newFiles() ([]entry, error) {
	if len(a.Request.Files) == 0 && a.work.isAsMade() {
		a.asMade = true
		return nil, nil
	}
	given := make(map[string]wire.InputFile, len(a.Request.Files))
	for _, f := range a.Request.Files {
		given[f.Name] = f
	}
	w := walk{attempt: a, given: given, left: a.Limits.ArchiveBytes}
	if err := w.dir(".", 0); err != nil {
		return nil, err
	}
	return w.found, nil
}

// walk looks for files. The program has ended, but what it has left may be hostile: any number of files and directories,
// links, pipes, closed directories.
type walk struct {
	*attempt
	given map[string]wire.InputFile
	found []entry
	dirs  int
	left  int64 // bytes
}

func (w *walk) dir(name string, depth int) error {
	if w.dirs++; depth > maxDepth || w.dirs > w.Limits.ArchiveFiles {
		return tooMuch("it left more than %d directories, or %d in one another", w.Limits.ArchiveFiles, maxDepth)
	}
	d, err := w.opened(name, 0o700, w.work.root.Open)
	if err != nil {
		return leftBehind(err)
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(namesAtOnce)
		for _, e := range entries {
			if err := w.add(path.Join(name, e.Name()), e, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return leftBehind(err)
		}
	}
}

func (w *walk) add(name string, e fs.DirEntry, depth int) error {
	if name == ownDir || name == w.exeName() {
		return nil
	}
	given, isGiven := w.given[name]
	switch {
	case e.IsDir():
		return w.dir(name, depth+1)
	case !e.Type().IsRegular():
		return nil
	}
	info, err := w.work.root.Lstat(name)
	if err != nil {
		return leftBehind(err)
	}
	if isGiven {
		same, err := w.unchanged(name, given)
		if same || err != nil {
			return err
		}
	}
	if len(w.found) >= w.Limits.ArchiveFiles {
		return tooMuch("it left more than %d files", w.Limits.ArchiveFiles)
	}
	if w.left -= info.Size(); w.left < 0 {
		return tooMuch("it left files of more than %d bytes together", w.Limits.ArchiveBytes)
	}
	w.found = append(w.found, entry{name: portable(name), path: name, mode: 0o644 | info.Mode()&0o111, size: info.Size()})
	return nil
}

// unchanged reports whether a file is as it was given to the program.
func (w *walk) unchanged(name string, given wire.InputFile) (bool, error) {
	f, err := w.openFile(name)
	if err != nil {
		return false, leftBehind(err)
	}
	defer f.Close()
	same, err := w.isAsGiven(f, given)
	if err != nil {
		return false, leftBehind(err)
	}
	return same, nil
}

func (a *attempt) openFile(name string) (*os.File, error) {
	return a.opened(name, 0o600, func(name string) (*os.File, error) { return openRegular(a.work.root, name) })
}

// opened opens what the program may have closed to its owner.
func (a *attempt) opened(name string, mode fs.FileMode, open func(string) (*os.File, error)) (*os.File, error) {
	f, err := open(name)
	if !errors.Is(err, fs.ErrPermission) {
		return f, err
	}
	change := a.work.root.Chmod
	if name == "." { // which a path in it could not be resolved in
		change = func(_ string, mode fs.FileMode) error { return a.work.lock.Chmod(mode) }
	}
	if change(name, mode) == nil {
		return open(name)
	}
	return f, err
}

// leftBehind says what it is that something in the work directory cannot be read after the program has ended. What the program can do itself, such as
// to delete the directory, is the job's failure: another attempt would end in the same way. The rest is this machine's.
func leftBehind(err error) error {
	for _, e := range []error{fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, errNotRegular} {
		if errors.Is(err, e) {
			return &failed{wire.ReasonError, fmt.Sprintf("what the program has left in its directory cannot be read: %v", withoutPath(err))}
		}
	}
	return unavailable(err)
}

// portable is a name that no system takes for a path of its own: with "\" it would be one of Windows.
func portable(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(c rune) bool { return c == '\\' || unicode.IsControl(c) }) {
		return name
	}
	parts := strings.Split(name, "/")
	for i, p := range parts {
		if !utf8.ValidString(p) || strings.ContainsFunc(p, func(c rune) bool { return c == '\\' || unicode.IsControl(c) }) {
			parts[i] = artifact.PortableName(p)
		}
	}
	return strings.Join(parts, "/")
}

// streamFiles are the streams that do not fit into the result.
func (a *attempt) streamFiles() (files []entry) {
	for _, s := range []struct {
		name string
		*stream
	}{{"stdout", &a.out.stdout}, {"stderr", &a.out.stderr}} {
		if !s.exact() {
			files = append(files, entry{name: ownDir + "/" + s.name, mode: 0o644, size: s.size(), from: s.stream})
		}
	}
	return files
}

// stored are the extensions of files that are compressed already.
var stored = []string{
	".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".lz4", ".7z", ".rar", ".jar", ".whl", ".docx", ".xlsx", ".pptx", ".npz",
	".jpg", ".jpeg", ".png", ".gif", ".webp", ".avif", ".heic", ".mp3", ".m4a", ".ogg", ".opus", ".flac", ".mp4", ".m4v", ".mkv", ".webm", ".mov", ".avi",
}

// epoch is the time of all files in archives, so that the same files give the same archive.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// pack makes an archive of files.
func (a *attempt) pack(ctx context.Context, files []entry) error {
	slices.SortFunc(files, func(x, y entry) int { return cmp.Compare(x.name, y.name) })
	a.archive.remove()
	a.archive = spill{limit: maxInline, temp: a.temp}
	z := zip.NewWriter(&a.archive)
	for _, f := range files {
		head := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: epoch}
		head.SetMode(f.mode)
		if slices.Contains(stored, strings.ToLower(path.Ext(f.name))) {
			head.Method = zip.Store
		}
		w, err := z.CreateHeader(head)
		if err != nil {
			return err
		}
		if err := a.packOne(ctx, f, w); err != nil {
			return fmt.Errorf("pack %q: %w", f.name, err)
		}
	}
	return z.Close()
}

func (a *attempt) packOne(ctx context.Context, f entry, to io.Writer) error {
	to = &input{to: to, left: f.size, ctx: ctx} // ends when ctx does
	if f.from != nil {
		_, err := io.Copy(to, f.from.open())
		return err
	}
	src, err := a.openFile(f.path)
	if err != nil {
		return err
	}
	defer src.Close()
	_, err = io.Copy(to, io.LimitReader(src, f.size))
	return err
}

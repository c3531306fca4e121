package outbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/batchfleet/batchfleet/safefile"
)

// maxEntries bounds how many entries are read. More are not a box's.
const maxEntries = 10_000

// Load calls read for each entry that an earlier process has left, by name. An entry that read returns
// an error for, or that cannot be read, is moved to corrupt/ with a warning in the log.
func (b *Box) Load(ctx context.Context, read func(name string, text []byte) error) error {
	dir := filepath.Join(b.Dir, b.Entries)
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(files) > maxEntries {
		return fmt.Errorf("%s holds %d files, at most %d are read", dir, len(files), maxEntries)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		text, err := safefile.Read(path, b.MaxEntry)
		if err == nil {
			err = read(f.Name(), text)
		}
		if err == nil {
			continue
		}
		to := filepath.Join(b.Dir, corruptDir, f.Name())
		b.Log.WarnContext(ctx, "cannot read an entry of an earlier run, moving it", "file", path, "to", to, "err", err)
		if err := os.Rename(path, to); err != nil { // it may be a directory, and a file there
			b.Log.WarnContext(ctx, "cannot move an entry, leaving it where it is", "file", path, "err", err)
		}
	}
	return nil
}

// Put writes the entry of a name in place of an earlier one. When it returns nil, the entry survives a power cut.
func (b *Box) Put(name string, text []byte) error {
	return safefile.Replace(filepath.Join(b.Dir, b.Entries, name), text)
}

// Remove deletes an entry, if there is one. It does not wait for the disk: an entry that comes back after a
// power cut is delivered again.
func (b *Box) Remove(name string) error {
	err := os.Remove(filepath.Join(b.Dir, b.Entries, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

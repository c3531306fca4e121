package outbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/batchfleet/batchfleet/batch"
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
// Entries that are put while the directory is synced share the next sync of it.
func (b *Box) Put(name string, text []byte) error {
	if err := safefile.Place(filepath.Join(b.Dir, b.Entries, name), text); err != nil {
		return err
	}
	return b.sync()
}

// syncs returns a function that syncs the directory of entries. Those who call it at the same time share a sync.
func (b *Box) syncs() func() error {
	g := &batch.Group[struct{}, struct{}]{Send: b.syncEntries}
	return func() error {
		_, err := g.Do(context.Background(), struct{}{}) // a disk has no deadline
		return err
	}
}

// syncEntries syncs the directory of entries for so many that were put before.
func (b *Box) syncEntries(_ context.Context, puts []struct{}) []batch.Answer[struct{}] {
	answers := make([]batch.Answer[struct{}], len(puts))
	if err := b.syncDir(filepath.Join(b.Dir, b.Entries)); err != nil {
		for i := range answers {
			answers[i].Err = err
		}
	}
	return answers
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

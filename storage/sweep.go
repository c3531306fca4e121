package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// sweepAge is how long a file must have been left alone before it counts as
// abandoned. A Put in progress touches its file with every buffer it writes.
const sweepAge = time.Hour

// SweepTemp removes the unfinished files of processes that were killed in a Put,
// if nothing has been written to them for an hour, and returns how many. It walks the
// whole directory, so call it once, at the start, in the background.
func (l *Local) SweepTemp(ctx context.Context) (removed int, err error) {
	root := l.root.Load()
	cutoff := time.Now().Add(-sweepAge)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist): // deleted meanwhile
			return nil
		case err != nil:
			return err
		case !d.Type().IsRegular() || !strings.HasPrefix(d.Name(), TempPrefix):
			return nil
		}
		info, err := d.Info()
		if err == nil && info.ModTime().Before(cutoff) {
			if err = root.Remove(name); err == nil {
				removed++
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("sweep storage directory %s: %w: %w", l.dir, jobs.ErrUnavailable, err)
	}
	return removed, err
}

// RemoveUnfinished removes the unfinished files in a directory, and then the directory
// if it is empty. A worker calls it when it takes a job over: if the earlier process was
// stopped just before it renamed such a file, its Put fails when it continues. A missing
// directory is no error.
func (l *Local) RemoveUnfinished(ctx context.Context, dir string) error {
	if err := localName(dir); err != nil {
		return err
	}
	root := l.root.Load()
	f, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would hang
	var entries []fs.DirEntry
	if err == nil {
		defer f.Close()
		entries, err = f.ReadDir(-1)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	for _, d := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !d.Type().IsRegular() || !strings.HasPrefix(d.Name(), TempPrefix) {
			continue
		}
		if removed := root.Remove(path.Join(dir, d.Name())); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	if err != nil {
		return l.fail("remove unfinished files in", dir, err)
	}
	removeEmpty(root, dir)
	return nil
}

package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// sweepAge is how long a file must have been left alone before it counts as
// abandoned. A Put in progress touches its file with every buffer it writes.
const sweepAge = time.Hour

// SweepTemp removes the unfinished files of processes that were killed in a Put,
// if nothing has been written to them for an hour, and returns how many. It
// walks the whole directory, so it is for once at the start, in the background.
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
		case !d.Type().IsRegular() || !strings.HasPrefix(d.Name(), tempPrefix):
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

package outbox

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/safefile"
)

// Bounds of what is kept aside, in each of the directories.
const (
	maxAside      = 1000 // files
	maxAsideBytes = 1 << 30
	sweepEvery    = time.Hour
)

func (b *Box) asideDirs() []string { return append(slices.Clone(b.Aside), corruptDir) }

// KeepAside writes a file into one of the directories of [Box.Aside], and returns where it is.
func (b *Box) KeepAside(dir, name string, text []byte) (path string, err error) {
	path = filepath.Join(b.Dir, dir, name)
	return path, safefile.Replace(path, text)
}

// sweepUntil sweeps every hour until ctx ends.
func (b *Box) sweepUntil(ctx context.Context) {
	for {
		b.sweep(ctx)
		if jobs.Sleep(ctx, sweepEvery) != nil {
			return
		}
	}
}

// sweep deletes what is kept aside for too long, and the oldest of too much.
func (b *Box) sweep(ctx context.Context) {
	for _, sub := range b.asideDirs() {
		dir := filepath.Join(b.Dir, sub)
		files, err := newestFirst(dir)
		if err != nil {
			b.Log.WarnContext(ctx, "cannot sweep a directory", "dir", dir, "err", err)
			continue
		}
		bytes := int64(0)
		for i, f := range files {
			bytes += f.Size()
			var why string
			switch {
			case time.Since(f.ModTime()) > b.KeepFor:
				why = fmt.Sprintf("it is older than %s", b.KeepFor)
			case i >= maxAside:
				why = fmt.Sprintf("there are more than %d", maxAside)
			case bytes > maxAsideBytes && i > 0:
				why = fmt.Sprintf("there are more than %d bytes", maxAsideBytes)
			default:
				continue
			}
			path := filepath.Join(dir, f.Name())
			if err := safefile.RemoveAll(path); err != nil {
				b.Log.WarnContext(ctx, "cannot sweep a directory", "file", path, "err", err)
				continue
			}
			b.Log.WarnContext(ctx, "deleted a file that was kept aside", "file", path, "why", why)
		}
	}
}

func newestFirst(dir string) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	return files, nil
}

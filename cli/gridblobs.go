package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/batchfleet/batchfleet/flock"
	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/safefile"
	"github.com/batchfleet/batchfleet/scratch"
)

// keepBlobs is how long a leader keeps a blob after its last use.
const keepBlobs = 48 * time.Hour

// openBlobs gives the leader a store of blobs, unless --max-blobs is 0. done closes the store, and deletes it if the leader has no directory.
func (f *gridLeaderFlags) openBlobs(ctx context.Context, l *leader.Leader, log *slog.Logger) (done func() error, err error) {
	if f.maxBlobs == 0 {
		return func() error { return nil }, nil
	}
	dir, remove := filepath.Join(f.dir, "blobs"), func() error { return nil }
	if f.dir == "" {
		var temp string
		if temp, remove, err = tempBlobs(log); err != nil {
			return nil, fmt.Errorf("make a directory for blobs: %w", err)
		}
		dir = filepath.Join(temp, "blobs")
	}
	store, err := blob.OpenStore(ctx, dir, blob.Options{Quota: f.maxBlobs, TTL: keepBlobs, Log: log})
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	l.Blobs = store
	return func() error { return errors.Join(store.Close(), remove()) }, nil
}

const blobsPrefix = "batchfleet-blobs-" // of temporary directories

// tempBlobs makes a temporary directory and locks it, until remove is called, or the process is killed. Then the next leader deletes it.
func tempBlobs(log *slog.Logger) (dir string, remove func() error, err error) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), blobsPrefix+"*")) // it is a pattern
	for _, dir := range left {
		if err := sweepTempBlobs(dir); err != nil {
			log.Warn("cannot delete what a leader that was killed has left", "dir", dir, "err", err)
		}
	}
	if dir, err = os.MkdirTemp("", blobsPrefix); err != nil {
		return "", nil, err
	}
	lock, err := safefile.OpenOrMake(filepath.Join(dir, "lock"))
	if err == nil {
		err = flock.Lock(lock)
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error { return errors.Join(flock.Release(lock), os.RemoveAll(dir)) }, nil
}

// sweepTempBlobs deletes a directory of tempBlobs that no process has locked. One that is new may be about to be locked.
func sweepTempBlobs(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || time.Since(info.ModTime()) < time.Minute || scratch.OwnDir(dir) != nil {
		return nil //nolint:nilerr // another leader has deleted it, or it is none of ours
	}
	lock, err := safefile.Open(filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(dir)
	}
	if err != nil {
		return err
	}
	if err := flock.Lock(lock); err != nil { // a leader that runs
		_ = lock.Close()
		return nil //nolint:nilerr // so it is in use
	}
	return errors.Join(flock.Release(lock), os.RemoveAll(dir))
}

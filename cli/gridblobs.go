package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/leader"
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
		temp, err := os.MkdirTemp("", "batchfleet-blobs-")
		if err != nil {
			return nil, fmt.Errorf("make a directory for blobs: %w", err)
		}
		dir, remove = filepath.Join(temp, "blobs"), func() error { return os.RemoveAll(temp) }
	}
	store, err := blob.OpenStore(ctx, dir, blob.Options{Quota: f.maxBlobs, TTL: keepBlobs, Log: log})
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	l.Blobs = store
	return func() error { return errors.Join(store.Close(), remove()) }, nil
}

package leader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/internal/disk"
)

// diskWatch watches the free space of the leader's disk. A file keeps some of it in reserve, and is deleted when nearly nothing else is left: so jobs that
// were taken can end when no more are taken.
type diskWatch struct {
	reserve string
	mu      sync.Mutex
	minFree int64
	written atomic.Int64           // bytes since it was measured, about
	low     atomic.Pointer[string] // why no jobs are taken; nil if there is enough space
}

// maxReserve is the size of the file, in bytes: at most half of minFree.
const maxReserve = 32 << 20

func (d *diskWatch) open(dir string, minFree int64) {
	d.reserve, d.minFree = filepath.Join(dir, "reserve"), minFree
	d.check()
}

func (d *diskWatch) close() error {
	if d.reserve == "" {
		return nil
	}
	if err := os.Remove(d.reserve); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// full returns why no jobs are taken, or nil.
func (d *diskWatch) full() error {
	if why := d.low.Load(); why != nil {
		return errors.New(*why)
	}
	return nil
}

// checkAfter is how many bytes may be written until the free space is measured again, however short that takes: jobs can come faster than the clock ticks.
const checkAfter = 1 << 20

// wrote tells that bytes are written to the disk.
func (d *diskWatch) wrote(bytes int) {
	if d.written.Add(int64(bytes)) > checkAfter {
		d.check()
	}
}

// check measures the free space, and makes or deletes the reserve.
func (d *diskWatch) check() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.written.Store(0)
	free, err := disk.Free(filepath.Dir(d.reserve))
	if err != nil {
		why := fmt.Sprintf("the free space of the leader's disk cannot be measured: %v", err)
		d.low.Store(&why)
		return
	}
	size := min(maxReserve, d.minFree/2)
	info, err := os.Stat(d.reserve)
	kept := int64(0)
	if err == nil {
		kept = info.Size()
	}
	switch {
	case free+kept < d.minFree:
		if free < size/2 {
			_ = os.Remove(d.reserve) // for the end of the jobs that were taken
		}
		why := fmt.Sprintf("the leader's disk has %d MiB free, and jobs are taken only with %d or more: free some space there, or submit to another leader", (free+kept)>>20, d.minFree>>20)
		d.low.Store(&why)
	default:
		if kept < size {
			_ = allocate(d.reserve, size)
		}
		d.low.Store(nil)
	}
}

// watchDisk checks the disk each second, until ctx ends.
func (l *Leader) watchDisk(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var before error
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.disk.check()
		after := l.disk.full()
		switch {
		case before == nil && after != nil:
			l.Log.ErrorContext(ctx, "no jobs are taken", "err", after)
		case before != nil && after == nil:
			l.Log.InfoContext(ctx, "jobs are taken again: the disk has enough free space")
		}
		before = after
	}
}

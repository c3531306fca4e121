package leader

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/journal"
	"github.com/batchfleet/batchfleet/safefile"
)

// recover opens the directory, and replays the journal into the state.
func (l *Leader) recover(ctx context.Context) error {
	began := time.Now()
	if err := safefile.Dir(l.Dir); err != nil {
		return err
	}
	var err error
	if l.bodies, err = openBodies(filepath.Join(l.Dir, "bodies")); err != nil {
		return err
	}
	l.disk.open(l.Dir, l.MinFree)
	damaged := 0
	l.journal, err = journal.Open(filepath.Join(l.Dir, "journal"), journal.Options{Log: l.Log}, func(record []byte) error {
		err := l.core.Replay(record)
		if err != nil {
			damaged++
		}
		return err
	})
	if err != nil {
		return errors.Join(err, l.disk.close())
	}
	l.core.Recovered(l.now())
	used := map[wire.GUID]bool{}
	l.core.Refs(func(ref wire.GUID) { used[ref] = true })
	lost, err := l.bodies.sweep(used)
	if err != nil {
		return errors.Join(fmt.Errorf("sweep the files of requests and results: %w", err), l.journal.Close(), l.disk.close())
	}
	n := l.core.Numbers()
	l.Log.InfoContext(ctx, "the journal was read", "dir", l.Dir, "queued", n.Queued, "running", n.Running, "dead", n.Dead, "results", n.Results, "took", time.Since(began))
	if damaged > 0 || lost > 0 {
		l.Log.ErrorContext(ctx, "some of what was kept is lost", "damaged_records", damaged, "missing_bodies", lost)
	}
	return nil
}

// checkpoints writes a checkpoint whenever the journal asks for one, and with [SyncInterval] syncs the journal each second, until ctx ends.
func (l *Leader) checkpoints(ctx context.Context) {
	sync := time.NewTicker(time.Second)
	defer sync.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.journal.WantsCheckpoint():
			if err := l.checkpoint(ctx); err != nil && ctx.Err() == nil {
				l.Log.ErrorContext(ctx, "cannot write a checkpoint", "err", err)
			}
		case <-sync.C:
			if l.Sync == SyncInterval {
				_ = l.journal.Commit(ctx, l.keeper.newest(), true) // a failure stops the leader
			}
		}
	}
}

// newest returns the ticket of the newest record that a promise has waited for.
func (k *keeper) newest() journal.Ticket {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

func (l *Leader) checkpoint(ctx context.Context) error {
	var c *journal.Checkpoint
	var s *schedule.Snapshot
	var failed error
	if err := l.Do(ctx, func(core *schedule.Core) {
		l.carryOut() // what has happened so far belongs to the segment before
		if c, failed = l.journal.Checkpoint(); failed == nil {
			s = core.Snapshot()
		}
	}); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	if err := s.Each(c.Add); err != nil {
		c.Abort()
		return err
	}
	return c.Done() //nolint:contextcheck // a checkpoint that has begun is finished
}

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

// recover opens the journal and makes the state that it tells of.
func (l *Leader) recover(ctx context.Context) error {
	began := time.Now()
	if err := safefile.Dir(l.Dir); err != nil {
		return err
	}
	var err error
	if l.bodies, err = openBodies(filepath.Join(l.Dir, "bodies")); err != nil {
		return err
	}
	if err := l.disk.open(l.Dir, l.MinFree); err != nil {
		return err
	}
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
		return errors.Join(fmt.Errorf("look at stored requests and results: %w", err), l.journal.Close(), l.disk.close())
	}
	n := l.core.Numbers()
	l.Log.InfoContext(ctx, "the journal was read", "dir", l.Dir, "queued", n.Queued, "running", n.Running, "dead", n.Dead, "results", n.Results, "took", time.Since(began))
	if damaged > 0 || lost > 0 {
		l.Log.ErrorContext(ctx, "a part of what was kept is lost", "records", damaged, "bodies", lost)
	}
	return nil
}

// checkpoints writes one whenever the journal wants it.
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
				last, _ := l.keeper.peek()
				_ = l.journal.Commit(ctx, last, true) // a failure stops the leader
			}
		}
	}
}

func (k *keeper) peek() (journal.Ticket, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last, len(k.promises)
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
	return c.Done() //nolint:contextcheck // what is begun is not left half done
}

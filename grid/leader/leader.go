package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/grid/access"
	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/door"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/journal"
)

// Sync says when records are synced to disk.
type Sync uint8

// The choices. All of them keep what was promised over kill -9 of the leader.
const (
	SyncAlways   Sync = iota // before a promise: it survives a power cut
	SyncInterval             // each second
	SyncNone                 // when the system does
)

// Leader is a leader of the grid. Set the exported fields, call Open, Serve for each listener, Run, and then Close.
type Leader struct {
	ID       wire.GUID // random when zero
	Dir      string    // for the journal; empty to keep nothing
	Sync     Sync
	Schedule schedule.Config
	// Access has the rules of who may do what; nil to allow everything. A certificate counts if the listener has verified it, see
	// [access.OpenServerTLS]. [Leader.Reload] reads the rules again.
	Access *access.File
	// Blobs has what does not fit into frames: inputs of jobs, and files that their programs have left. Nil for a leader that keeps none. The caller
	// closes it after Run. A blob that was not used for its TTL is deleted, unless a job needs it that has not ended or is a dead letter.
	Blobs   *blob.Store
	Log     *slog.Logger
	Metrics *Metrics // nil for none

	// The numbers at the end stand for zero.
	MaxConns  int           // connections at once; 20 000
	MaxPerIP  int           // connections at once of one address; MaxConns
	MinFree   int64         // bytes on the disk of Dir: with less, no jobs are taken; 64 MiB
	LargeBody int           // bytes from which on requests and results are kept in files, if there is a Dir; 16 KiB
	Drain     time.Duration // how long Run waits for running jobs when its ctx ends; it takes no jobs meanwhile

	core    *schedule.Core
	started time.Time
	journal *journal.Journal
	bodies  *bodies
	disk    diskWatch
	inbox   chan []event
	calls   chan func(*schedule.Core)
	ended   chan struct{} // closed when Run has ended
	door    door.Door
	peers   peers
	keeper  keeper
	changes jobapi.Changes
	tally   jobapi.Tally
	live    bool // the journal was read
	readers sync.WaitGroup

	entering sync.RWMutex // held for reading while the rules let a peer in
	mu       sync.Mutex
	draining bool
}

// ErrStopped means that the leader has ended.
var ErrStopped = errors.New("the leader has stopped")

// maxBatch is how many events are taken before their effects are carried out.
const maxBatch = 256

// Open fills in defaults, and reads what an earlier leader has left in Dir.
func (l *Leader) Open(ctx context.Context) error {
	if l.ID.IsZero() {
		l.ID = wire.NewGUID()
	}
	l.MaxConns, l.MinFree, l.LargeBody = cmp.Or(l.MaxConns, 20_000), cmp.Or(l.MinFree, 64<<20), cmp.Or(l.LargeBody, 16<<10)
	l.MaxPerIP = cmp.Or(l.MaxPerIP, l.MaxConns)
	l.started = time.Now()
	l.Schedule.Epoch = l.started
	l.Schedule.NoRecords = l.Dir == ""
	if l.Metrics != nil {
		l.Schedule.Observe = l.Metrics.observe
	}
	l.Schedule.Moved = l.moved
	l.core = schedule.New(l.Schedule)
	l.inbox, l.calls, l.ended = make(chan []event, 256), make(chan func(*schedule.Core)), make(chan struct{})
	l.peers.byID = map[schedule.PeerID]*peer{}
	l.door = door.Door{MaxConns: l.MaxConns, MaxPerIP: l.MaxPerIP, Log: l.Log}
	l.keeper.wake = make(chan struct{}, 1)
	if l.Dir != "" {
		if err := l.recover(ctx); err != nil {
			return fmt.Errorf("open %s: %w", l.Dir, err)
		}
	}
	l.live = true
	if l.Blobs != nil {
		l.useBlobs(l.core.Blobs()) // before a blob is put that might take their place
	}
	if l.Metrics != nil {
		l.Metrics.watch(l)
	}
	return nil
}

// now is the time for the state: since Open.
func (l *Leader) now() schedule.Moment { return time.Since(l.started) }

// Durable reports whether the leader keeps what it has promised.
func (l *Leader) Durable() bool { return l.journal != nil }

// Ready returns why no jobs are taken now, or nil.
func (l *Leader) Ready() error {
	_, err := l.closed()
	return err
}

// Run serves the peers until ctx ends or the journal fails, and then closes their connections. The error wraps [journal.ErrFailStop] if the journal has
// failed: the leader must be started again.
func (l *Leader) Run(ctx context.Context) error {
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	var beside sync.WaitGroup
	if l.journal != nil {
		beside.Go(func() { l.keep(work) })
		beside.Go(func() { l.checkpoints(work) })
		beside.Go(func() { l.watchDisk(work) })
		beside.Go(func() {
			select {
			case <-l.journal.Failed():
				stop(fmt.Errorf("%w: %w", journal.ErrFailStop, l.journal.Err()))
			case <-work.Done():
			}
		})
	}
	beside.Go(func() {
		select {
		case <-ctx.Done():
			l.drain(work)
			stop(nil)
		case <-work.Done():
		}
	})
	if l.Blobs != nil {
		beside.Go(func() { l.sweepBlobs(work) })
	}
	l.loop(work)
	close(l.ended)
	l.door.Close()
	l.peers.closeAll(ErrStopped)
	l.readers.Wait()
	beside.Wait()
	if err := context.Cause(work); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// drain refuses new jobs, and waits until no job runs, for l.Drain at most.
func (l *Leader) drain(ctx context.Context) {
	l.mu.Lock()
	l.draining = true
	l.mu.Unlock()
	if l.Drain <= 0 {
		return
	}
	deadline := time.NewTimer(l.Drain)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var n schedule.Numbers
		if l.Do(ctx, func(c *schedule.Core) { n = c.Numbers() }) != nil || n.Running == 0 {
			return
		}
		select {
		case <-deadline.C:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Close releases the directory for another process. It is called after Run.
func (l *Leader) Close() error {
	if l.journal == nil {
		return nil
	}
	return errors.Join(l.journal.Close(), l.disk.close())
}

// Do calls f with the state, in the goroutine of Run; f must not keep the state. The error is the cause of ctx, or [ErrStopped].
func (l *Leader) Do(ctx context.Context, f func(*schedule.Core)) error {
	done := make(chan struct{})
	call := func(c *schedule.Core) {
		f(c)
		close(done)
	}
	select {
	case l.calls <- call:
		<-done
		return nil
	case <-l.ended:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Now returns the time that the methods of the state want, in [Leader.Do].
func (l *Leader) Now() schedule.Moment { return l.now() }

// loop owns the state until ctx ends.
func (l *Leader) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case batch := <-l.inbox:
			n := l.apply(batch)
			for n < maxBatch {
				select {
				case batch := <-l.inbox:
					n += l.apply(batch)
					continue
				default:
				}
				break
			}
		case f := <-l.calls:
			f(l.core)
		case <-timer.C:
		}
		now := l.now()
		if now >= l.core.Next() {
			l.core.Tick(now)
		}
		l.carryOut()
		timer.Reset(max(0, l.core.Next()-l.now()))
	}
}

// Serve takes connections until ctx ends or the listener fails. It closes the listener, and does not wait for the connections.
func (l *Leader) Serve(ctx context.Context, listener net.Listener) error {
	return l.door.Serve(ctx, listener, &l.readers, func(conn net.Conn) { l.serve(ctx, conn) })
}

// options returns the options of a connection.
func (l *Leader) options(p *peer) link.Options {
	return link.Options{Written: func(ids []wire.GUID) { l.written(p, ids) }, Count: l.Metrics.frames}
}

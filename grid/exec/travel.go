package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// travel is how the checkpoint of an attempt goes to another worker: it is stored when this worker begins to drain and when the attempt
// has ended without a result that counts, so that no work is lost but what came after.
type travel struct {
	mu    sync.Mutex
	saved string // the state of what was stored last
}

// Drain says that attempts may not come to their end: what they have is stored now.
func (r *Runner) Drain() { r.drained.Do(func() { close(r.draining) }) }

func (a *attempt) travels() bool { return a.StoreCheckpoint != nil && a.Limits.Checkpoint > 0 }

// restore puts what an attempt before has stored into the checkpoint, unless this worker has that already, or what has become of it. A
// checkpoint that cannot be had is left out: the job only takes longer.
func (a *attempt) restore(ctx context.Context) error {
	b := a.Request.Checkpoint
	if b == nil || a.Fetch == nil || a.Limits.Checkpoint == 0 || a.checkpoint.Origin() == b.SHA256 {
		return nil
	}
	err := a.unpack(ctx, *b)
	if err == nil {
		err = a.checkpoint.SetOrigin(b.SHA256)
		a.travel.saved, _, _ = a.checkpoint.State()
		return ownDisk(err)
	}
	if errors.Is(err, jobs.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	a.Log.WarnContext(ctx, "the checkpoint of an attempt elsewhere is left out", "job", a.jobID(), "err", err)
	return nil
}

func (a *attempt) unpack(ctx context.Context, b wire.Blob) error {
	if most := archived(a.Limits.Checkpoint); b.Size > most {
		return fmt.Errorf("it has %d bytes, more than %d", b.Size, most)
	}
	f, err := a.temp()
	if err != nil {
		return ownDisk(err)
	}
	defer discard(f)
	if err := a.fetch(ctx, f, b); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return unavailable(err)
	}
	return a.checkpoint.Restore(f)
}

// archived is how large the archive of so many bytes can be, with the heads of its files.
func archived(n int64) int64 { return 2*n + 1<<20 }

// saveWhenDraining stores the checkpoint if this worker begins to drain, until stop is called.
func (a *attempt) saveWhenDraining(ctx context.Context) (stop func()) {
	if !a.travels() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		select {
		case <-a.draining:
			a.save(ctx)
		case <-ctx.Done():
		}
	})
	return func() { cancel(); running.Wait() }
}

// How long the last save of a checkpoint may take. A worker that is out of time waits for an attempt for half a second, and most of that
// is the program's.
const (
	saveTimeout        = 10 * time.Second
	saveDrainedTimeout = 150 * time.Millisecond
)

// saveLast stores the checkpoint of an attempt that has ended with err, for the next one.
func (a *attempt) saveLast(ctx context.Context, err error) {
	if !a.travels() || errors.Is(err, jobs.ErrLeaseLost) { // another attempt runs
		return
	}
	limit := saveTimeout
	if errors.Is(err, jobs.ErrDrained) {
		limit = saveDrainedTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	a.save(ctx)
}

// save stores the checkpoint if it has changed. Trouble costs what the program has done, and the job nothing else.
func (a *attempt) save(ctx context.Context) {
	a.travel.mu.Lock()
	defer a.travel.mu.Unlock()
	state, size, err := a.checkpoint.State()
	switch {
	case err != nil:
	case state == "" || state == a.travel.saved:
		return
	case size > a.Limits.Checkpoint:
		err = fmt.Errorf("it has %d bytes, and at most %d are stored", size, a.Limits.Checkpoint)
	default:
		err = a.send(ctx)
	}
	if err != nil {
		if ctx.Err() == nil || !errors.Is(err, context.Canceled) { // the program has ended meanwhile, and this is done again if need be
			a.Log.WarnContext(ctx, "cannot store the checkpoint of a job for another worker", "job", a.jobID(), "err", err)
		}
		return
	}
	a.travel.saved = state
}

func (a *attempt) send(ctx context.Context) error {
	f, err := a.temp()
	if err != nil {
		return err
	}
	defer discard(f)
	if err := a.checkpoint.Pack(f); err != nil {
		return err
	}
	b, err := a.StoreCheckpoint(ctx, f.Name())
	if err != nil {
		return err
	}
	return a.checkpoint.SetOrigin(b.SHA256)
}

// discard deletes a temporary file.
func discard(f *os.File) { _, _ = f.Close(), os.Remove(f.Name()) }

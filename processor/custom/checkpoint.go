package custom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/scratch"
)

// checkpoint is the directory in which a program keeps what its next attempt goes on from. It
// stays on this machine until the job has ended. If the kind says so it is also stored, as a tar
// archive, each time it has changed, so that an attempt on another machine finds it.
//
// See [scratch.Checkpoint.Pack] for what is stored.
type checkpoint struct {
	*Attempt
	path   string
	local  *scratch.Checkpoint
	ticker *time.Ticker // nil if it does not travel
	saved  string       // what was last stored, as the state of its files
}

func checkpointName(id jobs.ID) string { return "results/" + string(id) + "/checkpoint.tar" }

// restoreCheckpoint opens the checkpoint of a job whose checkpoints travel, and begins to store it.
func (a *Attempt) restoreCheckpoint(ctx context.Context) error {
	if _, err := a.Checkpoint(); err != nil {
		return err
	}
	c := a.places.checkpoint
	c.ticker = time.NewTicker(cmp.Or(a.handler.CheckpointEvery, 30*time.Second))
	return c.restore(ctx)
}

// close leaves the checkpoint for the next attempt, unless it was deleted.
func (c *checkpoint) close() {
	if c.ticker != nil {
		c.ticker.Stop()
	}
	c.local.Close()
}

// due is when the checkpoint is to be stored; never if there is none that travels.
func (c *checkpoint) due() <-chan time.Time {
	if c == nil {
		return nil
	}
	return c.ticker.C
}

// restore replaces what is in the directory by the checkpoint in the storage, if there is one: the
// newest attempt has stored it, which may have run elsewhere. An attempt stores its checkpoint
// before it ends, unless its worker was killed; then at most CheckpointEvery is lost.
func (c *checkpoint) restore(ctx context.Context) error {
	src, err := c.handler.Store.Open(ctx, checkpointName(c.Job.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open checkpoint: %w", err)
	}
	defer src.Close()
	err = c.local.Restore(io.LimitReader(src, 2*c.Kind.Checkpoints+1<<20))
	if errors.Is(err, jobs.ErrUnavailable) {
		return err
	}
	if err != nil {
		c.handler.Log.WarnContext(ctx, "checkpoint is unreadable and is left out", "job", c.Job.ID, "err", err)
	}
	c.saved, _, _ = c.local.State()
	return nil
}

// saveLast stores the checkpoint of a program that has ended without a result. Little time is left
// when the worker stops.
func (c *checkpoint) saveLast(ctx context.Context) {
	if errors.Is(context.Cause(ctx), jobs.ErrLeaseLost) || errors.Is(context.Cause(ctx), jobs.ErrCanceled) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	c.save(ctx)
}

// saveTimeout bounds the last save of a checkpoint.
const saveTimeout = 10 * time.Second

// save stores the checkpoint if it has changed. Trouble does not stop the job: it only costs what
// the program has done since.
func (c *checkpoint) save(ctx context.Context) {
	if errors.Is(jobs.Held(ctx), jobs.ErrUnavailable) {
		return // later: the program goes on while nothing is known of the claim
	}
	state, size, err := c.local.State()
	if err == nil && (state == "" || state == c.saved) {
		return
	}
	if err == nil && size > c.Kind.Checkpoints {
		_ = c.handler.Store.Delete(ctx, checkpointName(c.Job.ID)) // it is older than the one on this machine
		err = fmt.Errorf("it has %d bytes, more than %d (checkpoint_max of kind %s)", size, c.Kind.Checkpoints, c.Kind.Name)
	}
	if err == nil {
		err = c.put(ctx)
	}
	if err != nil {
		c.handler.Log.WarnContext(ctx, "cannot store the checkpoint of a job, which goes on", "job", c.Job.ID, "err", err)
		return
	}
	c.saved = state
}

// put stores the files of the directory as an archive.
func (c *checkpoint) put(ctx context.Context) error {
	r, w := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		w.CloseWithError(c.local.Pack(w))
	}()
	err := c.handler.Store.Put(ctx, checkpointName(c.Job.ID), r)
	_ = r.Close()
	<-packed
	return err
}

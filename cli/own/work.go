package own

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/processor/custom"
	"github.com/batchfleet/batchfleet/scratch"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker"
)

// Work is what a worker needs to run the kinds of a file.
type Work struct {
	File       *File
	GPUs       GPUEnv
	Store      storage.Store
	WorkDir    string // where programs run; the system's directory for temporary files when empty
	Checkpoint time.Duration
	Inline     int                     // how large a result may be that is not stored, see [custom.Handler]
	Place      func(id jobs.ID) string // where a job's attempts have their directories, see [scratch.Root]; nil for WorkDir
	Rename     bool                    // outputs are stored under names that every system can have, see [custom.Handler]
	Log        *slog.Logger

	root *scratch.Root
	stop context.CancelFunc
	runs sync.WaitGroup
}

// Pools returns the pools of a worker with that many slots for all kinds together.
func (w *Work) Pools(slots int) ([]worker.Pool, error) {
	return w.GPUs.Pools(w.GPUs.Runnable(Of(w.File.Set()), slog.New(slog.DiscardHandler)), slots)
}

// Start prepares this process for the programs, and calls use with what runs the kinds: now, and
// whenever the file was read again, which metrics counts. It should be called when a process starts,
// before programs run. The caller must call Close.
func (w *Work) Start(ctx context.Context, metrics prometheus.Registerer, use func(map[jobs.Kind]worker.Handler)) error {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // Close ends it, after the jobs
	w.stop = stop
	if w.File.mayHaveKinds() {
		if command.ControlCgroup() {
			w.Log.Info("cgroups with limits: the kernel keeps the memory and the processes of each job within its limits")
		} else {
			w.Log.Info("no cgroups with limits may be made here: memory is limited for each process of a job, and processes are counted")
		}
		var err error
		if w.root, err = scratch.Open(w.WorkDir, w.Log); err != nil {
			stop()
			return err
		}
		w.root.Place = w.Place
		w.runs.Go(func() { w.root.Run(ctx) })
	}
	start, now := w.GPUs.Runnable(Of(w.File.Set()), slog.New(slog.DiscardHandler)), []Kind(nil)
	w.File.Use(func(set *kinds.Set) {
		now = Fitting(start, now, w.GPUs.Runnable(Of(set), w.Log), w.Log)
		use(Handlers(now, custom.Handler{Store: w.Store, Scratch: w.root, CheckpointEvery: w.Checkpoint, Inline: w.Inline, Rename: w.Rename, Log: w.Log}))
	})
	w.runs.Go(func() { w.File.Run(ctx, metrics) })
	return nil
}

// Forget deletes what this machine has of the checkpoint of a job, unless an attempt has it that was given up and
// has not yet ended.
func (w *Work) Forget(id jobs.ID) error {
	if w.root == nil {
		return nil
	}
	err := w.root.DeleteCheckpoint(id)
	if errors.Is(err, scratch.ErrInUse) {
		return nil
	}
	return err
}

// Close deletes the directories of the programs. Nothing may run in them any more.
func (w *Work) Close() error {
	w.stop()
	w.runs.Wait()
	if w.root == nil {
		return nil
	}
	return w.root.Close()
}

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/custom"
	"github.com/batchfleet/batchfleet/scratch"
	"github.com/batchfleet/batchfleet/worker"
	"github.com/batchfleet/batchfleet/worker/memory"
)

// programRig is a worker in this process that runs the programs of a kinds file. Its queue
// and its results are in memory.
type programRig struct {
	queue   *timedQueue
	scratch *scratch.Root
	stop    context.CancelFunc
	stopped chan error
	queued  int
}

// startProgramRig starts a worker for the kinds of a file with the given text.
func startProgramRig(ctx context.Context, dir, text string, status worker.Status, pools ...worker.Pool) (*programRig, error) {
	all, err := openKinds(dir, text)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	command.ControlCgroup() // as a worker does first
	root, err := scratch.Open(dir, log)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	rig := &programRig{queue: newTimedQueue(all), scratch: root, stop: stop, stopped: make(chan error, 1)}
	w := &worker.Worker{
		Source: rig.queue, Status: status, Handlers: own.Handlers(all, custom.Handler{Store: new(memoryStore), Scratch: root, Log: log}), Pools: pools, Log: log,
	}
	go func() { rig.stopped <- w.Run(ctx) }()
	return rig, nil
}

// openKinds writes a kinds file into dir and reads it as a worker does.
func openKinds(dir, text string) ([]own.Kind, error) {
	file := filepath.Join(dir, "kinds.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return (&own.Env{File: file}).Open()
}

// close stops the worker and waits for it.
func (rig *programRig) close() error {
	rig.stop()
	err := <-rig.stopped
	if closed := rig.scratch.Close(); err == nil {
		err = closed
	}
	return err
}

// submit queues n jobs of a kind, and returns the id of the last.
func (rig *programRig) submit(kind jobs.Kind, n int) (id jobs.ID) {
	for range n {
		rig.queued++
		id = jobs.ID(fmt.Sprintf("job-%d", rig.queued))
		rig.queue.Add(memory.Message{Job: jobs.Job{ID: id, Kind: kind}})
	}
	return id
}

// wait waits until n more jobs of a kind have ended, and returns how long each was leased, in
// milliseconds.
func (rig *programRig) wait(ctx context.Context, kind jobs.Kind, n int) (took []float64, err error) {
	for range n {
		select {
		case d := <-rig.queue.ended[kind]:
			took = append(took, float64(d)/1e6)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return took, nil
}

package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker"
)

// Kinds are the kinds of jobs that an agent runs beside zpe. The zero value has none.
type Kinds struct {
	// Pools are the slots for all jobs; empty for WORKER_SLOTS slots.
	Pools []worker.Pool
	// Start calls use with what runs the jobs, by the gateway's names of the kinds: before it returns, and
	// whenever there are other kinds. Each handler leaves its artifacts and its result in the store, as
	// [gateway.ArtifactObject] says and in results/JOB/result.json, where artifacts lists the former.
	Start func(ctx context.Context, store storage.Store, metrics prometheus.Registerer, use func(map[jobs.Kind]worker.Handler)) error
	// Forget deletes what is left of a job outside the store.
	Forget func(id jobs.ID) error
	// Close is called after Start, when no job runs any more.
	Close func() error
}

// slots returns how many jobs may run at once.
func (e *Env) slots() (n int) {
	for _, p := range e.kinds.Pools {
		n += p.Slots
	}
	return cmp.Or(n, e.Slots)
}

// startKinds has the worker and its agent run the kinds beside zpe, too. zpe is empty for a worker that does not run kind zpe.
// Without an error the caller must call done, when no job runs any more.
func (e *Env) startKinds(ctx context.Context, a *gateway.Agent, w *worker.Worker, zpe map[jobs.Kind]worker.Handler, log *slog.Logger) (done func(), err error) {
	adopt := func(others map[jobs.Kind]worker.Handler) error {
		all, kinds := maps.Clone(zpe), slices.Sorted(maps.Keys(others))
		for kind, h := range others {
			all[kind] = a.Handler(h)
		}
		switch n := len(all); {
		case n == 0:
			return errors.New("PROCESSOR is none, and there are no other kinds of jobs to run (KINDS_FILE)")
		case n > wire.MaxKinds:
			return fmt.Errorf("there are %d kinds of jobs to run: a worker of a gateway can have %d; give it a KINDS_FILE with fewer", n, wire.MaxKinds)
		}
		a.SetKinds(kinds)
		w.Replace(all)
		log.Info("this worker runs jobs of these kinds", "kinds", slices.Sorted(maps.Keys(all)))
		return nil
	}
	if e.kinds.Start == nil {
		if err := adopt(nil); err != nil {
			return nil, program.Exit(program.Usage, err)
		}
		return func() {}, nil
	}
	started := false // use is called once before Start returns, and by one goroutine at a time
	var wrong error  // with the first kinds
	use := func(others map[jobs.Kind]worker.Handler) {
		err := adopt(others)
		switch {
		case !started:
			started, wrong = true, err
		case err != nil:
			log.Error("this worker cannot have these kinds, and they stay as they are", "err", err)
		}
	}
	if err := e.kinds.Start(ctx, a.HandlerStore(), w.Metrics.Registry, use); err != nil {
		return nil, program.Exit(program.Usage, fmt.Errorf("AGENT_DIR: %w", err))
	}
	done = func() {
		if err := e.kinds.Close(); err != nil {
			log.Warn("cannot clean up", "err", err)
		}
	}
	if wrong != nil {
		done()
		return nil, program.Exit(program.Usage, wrong)
	}
	return done, nil
}

// handlers returns what runs the jobs of kind zpe, and what deletes the traces of a job of any kind.
func (e *Env) handlers(ctx context.Context, store *storage.Local, log *slog.Logger) (zpe map[jobs.Kind]worker.Handler, forget func(context.Context, jobs.ID) error, err error) {
	zpe = map[jobs.Kind]worker.Handler{}
	forgetZPE := func(context.Context, jobs.ID) error { return nil }
	if jobs.Kind(e.Kind) != kindNone {
		zpe[jobs.Kind(e.Kind)], forgetZPE, err = e.handler(ctx, store, log)
	}
	return zpe, func(ctx context.Context, id jobs.ID) error {
		err := errors.Join(forgetZPE(ctx, id), forgetFiles(ctx, store, id))
		if e.kinds.Forget != nil {
			err = errors.Join(err, e.kinds.Forget(id))
		}
		return err
	}, err
}

// forgetFiles deletes what a job of a kind beside zpe has in the store.
func forgetFiles(ctx context.Context, store storage.Store, id jobs.ID) error {
	err := store.Delete(ctx, gateway.InputObject(id))
	for _, below := range []string{gateway.InputObject(id), "results/" + string(id)} {
		walked := store.Walk(ctx, below+"/", func(name string, _ storage.Info, err error) error {
			if err != nil {
				return err
			}
			return store.Delete(ctx, name)
		})
		if !errors.Is(walked, fs.ErrNotExist) {
			err = errors.Join(err, walked)
		}
	}
	return err
}

// encodeKind makes what a gateway is sent out of the result of a job of a kind beside zpe: all
// of it, and apart from that the artifacts that it lists.
func encodeKind(_ jobs.Kind, result []byte) (wire.ResultRequest, error) {
	var r struct {
		Artifacts []wire.Artifact `json:"artifacts"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return wire.ResultRequest{}, err
	}
	return wire.ResultRequest{Result: result, Artifacts: r.Artifacts}, nil
}

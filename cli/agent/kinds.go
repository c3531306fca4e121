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
	// Open returns what runs the jobs. It is called once.
	Open func(ctx context.Context, store storage.Store, log *slog.Logger) (Handlers, error)
}

// Handlers run the jobs of kinds beside zpe.
type Handlers struct {
	// ByKind has the gateway's names of the kinds. Each handler leaves its artifacts and its result in
	// the store, as [gateway.ArtifactObject] says and in results/JOB/result.json, where artifacts lists
	// the former.
	ByKind map[jobs.Kind]worker.Handler
	// Forget deletes what is left of a job outside the store.
	Forget func(ctx context.Context, id jobs.ID) error
	// Close is called when no job runs any more.
	Close func() error
}

// slots returns how many jobs may run at once.
func (e *Env) slots() (n int) {
	for _, p := range e.kinds.Pools {
		n += p.Slots
	}
	return cmp.Or(n, e.Slots)
}

// pools returns the slots of the worker, without those that none of its kinds may use.
func (e *Env) pools(handlers map[jobs.Kind]worker.Handler) []worker.Pool {
	if len(e.kinds.Pools) == 0 {
		return []worker.Pool{{Slots: e.Slots}}
	}
	named := 0
	for _, p := range e.kinds.Pools {
		named += len(p.Kinds)
	}
	return slices.DeleteFunc(slices.Clone(e.kinds.Pools), func(p worker.Pool) bool { return len(p.Kinds) == 0 && named == len(handlers) })
}

// handlers returns what runs the jobs of each kind, what deletes their traces, and what closes it.
func (e *Env) handlers(ctx context.Context, store *storage.Local, log *slog.Logger) (byKind map[jobs.Kind]worker.Handler, forget func(context.Context, jobs.ID) error, done func(), err error) {
	byKind = map[jobs.Kind]worker.Handler{}
	forgetZPE, others := func(context.Context, jobs.ID) error { return nil }, Handlers{}
	if jobs.Kind(e.Kind) != kindNone {
		byKind[jobs.Kind(e.Kind)], forgetZPE, err = e.handler(ctx, store, log)
		if err != nil {
			return nil, nil, nil, err
		}
	}
	if e.kinds.Open != nil {
		if others, err = e.kinds.Open(ctx, store, log); err != nil {
			return nil, nil, nil, err
		}
		maps.Copy(byKind, others.ByKind)
	}
	done = func() {
		if others.Close == nil {
			return
		}
		if err := others.Close(); err != nil {
			log.WarnContext(context.WithoutCancel(ctx), "cannot clean up", "err", err)
		}
	}
	switch n := len(byKind); {
	case n == 0:
		err = errors.New("PROCESSOR is none, and there are no other kinds of jobs to run (KINDS_FILE)")
	case n > wire.MaxKinds:
		err = fmt.Errorf("there are %d kinds of jobs to run: a worker of a gateway can have %d; give it a KINDS_FILE with fewer", n, wire.MaxKinds)
	}
	if err != nil {
		done()
		return nil, nil, nil, program.Exit(program.Usage, err)
	}
	return byKind, func(ctx context.Context, id jobs.ID) error {
		err := errors.Join(forgetZPE(ctx, id), forgetFiles(ctx, store, id))
		if others.Forget != nil {
			err = errors.Join(err, others.Forget(ctx, id))
		}
		return err
	}, done, nil
}

// forgetFiles deletes what a job of a kind beside zpe has in the store.
func forgetFiles(ctx context.Context, store storage.Store, id jobs.ID) error {
	err := store.Delete(ctx, gateway.InputObject(id))
	walked := store.Walk(ctx, "results/"+string(id)+"/", func(name string, _ storage.Info, err error) error {
		if err != nil {
			return err
		}
		return store.Delete(ctx, name)
	})
	if errors.Is(walked, fs.ErrNotExist) {
		walked = nil
	}
	return errors.Join(err, walked)
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

// Package own makes of people's own kinds what a worker needs: handlers and pools. The kinds are those
// of the kinds file and those that a program was built with.
package own

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/processor/custom"
	"github.com/batchfleet/batchfleet/processor/program"
	"github.com/batchfleet/batchfleet/scratch"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker"
)

// Kind is a kind that is run by a function of this program.
type Kind struct {
	*kinds.Kind
	Do func(ctx context.Context, a *custom.Attempt) error
}

// Built are the kinds that this program was built with. They are set before a command runs.
var Built []Kind

// Env says which kinds there are, and what their jobs may use.
type Env struct {
	File string `envconfig:"KINDS_FILE" doc:"people's own kinds of jobs, see kinds.md; none when empty"`
}

// GPUEnv says which GPUs a worker has.
type GPUEnv struct {
	GPUs string `envconfig:"WORKER_GPUS" doc:"indices of the GPUs that jobs of kinds with gpus may use, such as 0,1; none when empty"`
}

// Read returns the kinds of the file and those that the program was built with. All mistakes in the
// file are one error.
func (e *Env) Read() ([]Kind, error) { return e.read(func(*kinds.Set) error { return nil }) }

// Open is Read for a worker, which needs the programs of the kinds. Those that are missing are mistakes,
// too.
func (e *Env) Open() ([]Kind, error) {
	return e.read(func(set *kinds.Set) error { return set.Executables(os.Getenv("PATH")) })
}

func (e *Env) read(check func(*kinds.Set) error) ([]Kind, error) {
	all := slices.Clone(Built)
	if e.File == "" {
		return all, nil
	}
	set, err := kinds.Read(e.File)
	if err == nil {
		err = check(set)
	}
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, k := range set.Kinds {
		if slices.ContainsFunc(Built, func(b Kind) bool { return b.Name == k.Name }) {
			wrong = append(wrong, fmt.Errorf("%s: kind %q is one that this program was built with: give it another name", e.File, k.Name))
		}
		all = append(all, Kind{Kind: k})
	}
	return all, errors.Join(wrong...)
}

// What a worker knows of a handler beside its methods.
var (
	_ worker.AttemptHandler = (*custom.Handler)(nil)
	_ worker.TimeLimiter    = (*custom.Handler)(nil)
	_ worker.Discarder      = (*custom.Handler)(nil)
)

// Handlers returns what runs the kinds.
func Handlers(all []Kind, store storage.Store, root *scratch.Root, checkpoint time.Duration, log *slog.Logger) map[jobs.Kind]worker.Handler {
	handlers := map[jobs.Kind]worker.Handler{}
	for _, k := range all {
		do := k.Do
		if do == nil {
			do = program.Runner{Environ: environ(k.Kind, log)}.Do
		}
		handlers[k.Name] = &custom.Handler{Kind: k.Kind, Store: store, Scratch: root, Do: do, CheckpointEvery: checkpoint, Log: log}
	}
	return handlers
}

// environ is what the programs of a kind are given of this process' environment.
func environ(k *kinds.Kind, log *slog.Logger) []string {
	env := []string{"PATH=" + os.Getenv("PATH")}
	for _, name := range k.Env {
		value, set := os.LookupEnv(name)
		if !set {
			log.Warn("a variable that a kind passes on is not set", "kind", k.Name, "env", name)
			continue
		}
		env = append(env, name+"="+value)
	}
	return env
}

// Package own makes of people's own kinds what a worker needs: handlers and pools. The kinds are those
// of the kinds file and those that a program was built with.
package own

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/processor/custom"
	"github.com/batchfleet/batchfleet/processor/program"
	"github.com/batchfleet/batchfleet/worker"
)

// Kind is a kind that is run by a function of this program.
type Kind struct {
	*kinds.Kind
	Do func(ctx context.Context, a *custom.Attempt) error
}

// Built are the kinds that this program was built with. They are set before a command runs.
var Built []Kind

// Env says which kinds there are beside the built-in ones.
type Env struct {
	File string `envconfig:"KINDS_FILE" doc:"the kinds file, which describes programs that run as jobs, as --kinds; servers and workers read it again at SIGHUP; without, there are only the built-in kinds"`

	without []jobs.Kind
}

// LeaveOut makes e as if there were none of these kinds.
func (e *Env) LeaveOut(names []jobs.Kind) { e.without = names }

// Check has nothing to look at: the file is checked when it is read.
func (*Env) Check() []error { return nil }

// GPUEnv says which GPUs a worker has.
type GPUEnv struct {
	GPUs string `envconfig:"WORKER_GPUS" doc:"indices of the GPUs that jobs of kinds with gpus may use, such as 0,1; none when empty"`
}

// Set returns the kinds of the file and those that the program was built with. All mistakes in the file
// are one error.
func (e *Env) Set() (*kinds.Set, error) {
	set := &kinds.Set{}
	if e.File != "" {
		var err error
		if set, err = kinds.Read(e.File); err != nil {
			return nil, err
		}
	}
	var wrong []error
	for _, b := range Built {
		wrong = append(wrong, set.Add(b.Kind))
	}
	set.Remove(e.without)
	return set, errors.Join(wrong...)
}

// Open returns the kinds for a worker, which needs their programs. Those that are missing are mistakes,
// too.
func (e *Env) Open() ([]Kind, error) {
	set, err := e.Set()
	if err == nil {
		err = set.Executables(os.Getenv("PATH"))
	}
	if err != nil {
		return nil, err
	}
	return Of(set), nil
}

// Of returns the kinds of a set with what runs them.
func Of(set *kinds.Set) []Kind {
	var all []Kind
	for _, k := range set.Kinds {
		one := Kind{Kind: k}
		for _, b := range Built {
			if b.Kind == k {
				one.Do = b.Do
			}
		}
		all = append(all, one)
	}
	return all
}

// What a worker knows of a handler beside its methods.
var (
	_ worker.AttemptHandler = (*custom.Handler)(nil)
	_ worker.TimeLimiter    = (*custom.Handler)(nil)
	_ worker.Discarder      = (*custom.Handler)(nil)
)

// Handlers returns what runs the kinds. Each is as like, with its Kind and Do.
func Handlers(all []Kind, like custom.Handler) map[jobs.Kind]worker.Handler {
	handlers := map[jobs.Kind]worker.Handler{}
	for _, k := range all {
		h := like
		h.Kind, h.Do = k.Kind, k.Do
		if h.Do == nil {
			h.Do = program.Runner{Environ: Environ(k.Kind, like.Log)}.Do
		}
		handlers[k.Name] = &h
	}
	return handlers
}

// Environ is what the programs of a kind are given of this process' environment.
func Environ(k *kinds.Kind, log *slog.Logger) []string {
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

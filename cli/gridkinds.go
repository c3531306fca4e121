package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/grid/exec"
	"github.com/batchfleet/batchfleet/grid/subject"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// openKinds gives a runner the kinds of the kinds file, those of now and those of later. It returns nil if there is no file.
func (f *gridWorkerFlags) openKinds(env *GridWorkerEnv, runner *exec.Runner) (*own.File, error) {
	which := own.Env{File: cmp.Or(f.kinds, env.File)}
	if which.File == "" {
		return nil, nil
	}
	file, err := own.OpenFile(&which, true, runner.Log)
	if err != nil {
		return nil, program.Exit(program.Usage, err)
	}
	var now atomic.Pointer[map[string]*exec.Kind]
	file.Use(func(set *kinds.Set) {
		all := gridKinds(set, env.MaxPar, runner.Log)
		now.Store(&all)
	})
	runner.Kind = func(name string) *exec.Kind { return (*now.Load())[name] }
	return file, nil
}

// gridKinds are the kinds by name, for a worker with so many slots. Those that are functions of this program are no execs.
func gridKinds(set *kinds.Set, slots int, log *slog.Logger) map[string]*exec.Kind {
	all := map[string]*exec.Kind{}
	for _, k := range set.Kinds {
		if k.IsOwn() {
			continue
		}
		one := &exec.Kind{Kind: k, Environ: own.Environ(k, log), Unfit: unfitForGrid(k, slots)}
		if one.Unfit != nil {
			log.Warn("jobs of a kind do not run on this worker", "kind", k.Name, "err", one.Unfit)
		}
		all[string(k.Name)] = one
	}
	return all
}

// kindsChecks returns what the kinds file needs, nothing if there is none.
func (f *gridWorkerFlags) kindsChecks(env *GridWorkerEnv) []check {
	file := cmp.Or(f.kinds, env.File)
	if file == "" {
		return nil
	}
	if err := os.Setenv("KINDS_FILE", file); err != nil {
		return nil // it was read from there, or is the text of a flag, without a NUL
	}
	all := inWords(kindsChecks(), "KINDS_FILE", "--kinds")
	set, err := kinds.Read(file)
	if err != nil {
		return all // which say so
	}
	for _, k := range set.Kinds {
		if !subject.Match(f.pattern, wire.AssignPrefix+string(k.Name)) {
			continue // this worker is given no jobs of it
		}
		if unfit := unfitForGrid(k, env.MaxPar); unfit != nil {
			all = append(all, check{
				"kinds", string(k.Name), func(context.Context) (string, error) { return "", unfit },
				always("its jobs fail here: leave them to other workers, with a PATTERN that does not match them or a kinds file without this kind"),
			})
		}
		exe := filepath.Join(f.exeDir, string(k.Name)+".exe")
		if _, err := os.Lstat(exe); err == nil {
			all = append(all, check{
				"kinds", string(k.Name), func(context.Context) (string, error) { return "it runs, and not " + exe, nil }, always(""),
			})
		}
	}
	return all
}

// unfitForGrid says why a worker with so many slots runs no jobs of a kind, and is nil if it does. Its slots take jobs of all execs.
func unfitForGrid(k *kinds.Kind, slots int) error {
	switch {
	case k.GPUs > 0:
		return errors.New("it holds GPUs, which workers of the grid do not give out")
	case k.Slots > 0 && k.Slots < slots:
		return fmt.Errorf("no more than %d of its jobs may run at once (its key slots), and this worker runs %d of all execs: set WORKER_MAX_PAR=%d", k.Slots, slots, k.Slots)
	}
	return nil
}

// params are those of the flags, checked if the kinds file has a kind that EXEC names.
func (f *gridSubmitFlags) params(ctx context.Context, name string) (json.RawMessage, error) {
	set, err := f.kind.readKinds()
	if err != nil {
		return nil, err
	}
	k := set.Get(jobs.Kind(name))
	params, err := f.kind.paramsOf(ctx, k)
	if err != nil || k == nil || k.IsOwn() {
		return params, err
	}
	if _, err := k.CheckParams(params); err != nil {
		return nil, err
	}
	return params, nil
}

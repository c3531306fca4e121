package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/batchfleet/batchfleet/cli/agent"
	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/scratch"
	"github.com/batchfleet/batchfleet/storage"
)

// OwnEnv is own.Env, under a name beside that of agent.Env.
type OwnEnv = own.Env

// AgentEnv is what a worker needs that leases from a gateway: it runs people's own kinds, too.
type AgentEnv struct {
	agent.Env
	OwnEnv
	own.GPUEnv
}

// Check returns what is wrong with the values, and whether pw.x is missing.
func (e *AgentEnv) Check() []error {
	wrong := e.Env.Check()
	if e.File != "" || len(own.Built) > 0 {
		for i, err := range wrong {
			if strings.HasPrefix(err.Error(), "QE_PW: ") {
				wrong[i] = fmt.Errorf("%w; PROCESSOR=none runs the other kinds without it", err)
			}
		}
	}
	return settings.Compact(wrong, e.GPUEnv.Check())
}

// kinds returns the kinds of the kinds file and those that the program was built with.
func (e *AgentEnv) kinds(log *slog.Logger) (agent.Kinds, error) {
	all, err := e.Open()
	if err != nil {
		return agent.Kinds{}, program.Exit(program.Usage, err)
	}
	all = e.Runnable(all, log)
	if len(all) == 0 {
		return agent.Kinds{}, nil
	}
	pools, err := e.Pools(all, e.Slots)
	if err != nil {
		return agent.Kinds{}, program.Exit(program.Usage, err)
	}
	return agent.Kinds{Pools: pools, Open: func(_ context.Context, store storage.Store, log *slog.Logger) (agent.Handlers, error) {
		return e.openKinds(all, store, log)
	}}, nil
}

// openKinds returns what runs the kinds. Their jobs have their directories in AGENT_DIR, which no other
// process uses.
func (e *AgentEnv) openKinds(all []own.Kind, store storage.Store, log *slog.Logger) (agent.Handlers, error) {
	root, err := scratch.Open(e.Dir, log)
	if err != nil {
		return agent.Handlers{}, program.Exit(program.Usage, fmt.Errorf("AGENT_DIR: %w", err))
	}
	for i, k := range all {
		// The store is this machine's, too: a checkpoint there would only be an older copy.
		local := *k.Kind
		local.Checkpoints = 0
		all[i].Kind = &local
	}
	return agent.Handlers{
		ByKind: own.Handlers(all, store, root, 0, log),
		Forget: func(_ context.Context, id jobs.ID) error { return forgetCheckpoint(root, id) },
		Close:  root.Close,
	}, nil
}

// forgetCheckpoint deletes the checkpoint of a job, unless an attempt has it that was given up and has not
// yet ended.
func forgetCheckpoint(root *scratch.Root, id jobs.ID) error {
	err := root.DeleteCheckpoint(id)
	if errors.Is(err, scratch.ErrInUse) {
		return nil
	}
	return err
}

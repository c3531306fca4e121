package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/cli/agent"
	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker"
)

// OwnEnv is own.Env, under a name beside that of agent.Env.
type OwnEnv = own.Env

// AgentEnv is what a worker needs that leases from a gateway: it runs people's own kinds, too.
type AgentEnv struct {
	agent.Env
	OwnEnv
	own.GPUEnv

	file *own.File // once kinds has read it
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

// kinds returns the kinds of the kinds file and those that the program was built with. Their jobs have their
// directories in AGENT_DIR, which no other process uses.
func (e *AgentEnv) kinds(log *slog.Logger) (agent.Kinds, error) {
	file, err := own.OpenFile(&e.OwnEnv, true, log)
	if err != nil {
		return agent.Kinds{}, program.Exit(program.Usage, err)
	}
	e.file = file
	work := &own.Work{File: file, GPUs: e.GPUEnv, WorkDir: e.Dir, Inline: gateway.MaxInline, Log: log}
	pools, err := work.Pools(e.Slots)
	if err != nil {
		return agent.Kinds{}, program.Exit(program.Usage, err)
	}
	return agent.Kinds{
		Pools: pools,
		Start: func(ctx context.Context, store storage.Store, metrics prometheus.Registerer, use func(map[jobs.Kind]worker.Handler)) error {
			work.Store = store
			return work.Start(ctx, metrics, use)
		},
		Forget: work.Forget, Close: work.Close,
	}, nil
}

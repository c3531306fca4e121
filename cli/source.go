package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/agent"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// runAgent is a worker whose jobs come from a gateway, or from its Redis.
func runAgent(cmd *cobra.Command, args []string) error {
	if fromRedis() {
		return settings.With(func(cmd *cobra.Command, env *DirectEnv, _ []string) error {
			return env.RunKinds(cmd.Context(), versionText(), env.open, env.kinds)
		})(cmd, args)
	}
	return settings.With(func(cmd *cobra.Command, env *AgentEnv, _ []string) error {
		return env.RunKinds(cmd.Context(), versionText(), agent.OverHTTP(versionText()), env.kinds)
	})(cmd, args)
}

// fromRedis reports whether SOURCE names the Redis of a gateway.
func fromRedis() bool { return strings.HasPrefix(os.Getenv("SOURCE"), "redis") }

// DirectEnv is what a worker needs that leases from the Redis of a gateway. The
// rules that come with a lease are those of its environment, as for a gateway.
type DirectEnv struct {
	AgentEnv
	GatewayEnv
}

// Check returns what is wrong with the values, and whether pw.x is missing.
func (e *DirectEnv) Check() []error { return settings.Compact(e.AgentEnv.Check(), e.checkRules()) }

// checkRules returns what is wrong with the values that a worker of a gateway
// does not need.
func (e *DirectEnv) checkRules() []error {
	wrong := e.GatewayEnv.Check()
	if e.Name == "" {
		wrong = append(wrong, errors.New("WORKER_NAME must be set with SOURCE=redis://…: what a worker has left undelivered is taken only under the name that leased it"))
	}
	return wrong
}

// open opens the Redis that SOURCE names, and the storage of the gateway for kinds beside zpe.
func (e *DirectEnv) open(ctx context.Context, _ *agent.Env) (gateway.ControlPlane, func(), error) {
	q, closer, err := e.openQueue()
	if err != nil {
		return nil, nil, err
	}
	direct, err := control.NewDirect(q, e.Name)
	if err != nil {
		_ = closer.Close()
		return nil, nil, program.Exit(program.Usage, fmt.Errorf("WORKER_NAME: %w", err))
	}
	e.SpoolDir = filepath.Join(e.Dir, "spool") // no other process's
	if direct.Files, err = e.files(ctx, e.file.Set()); err != nil {
		_ = closer.Close()
		return nil, nil, program.Exit(program.Usage, err)
	}
	direct.Kinds = func() map[jobs.Kind]control.Kind { return control.KindsOf(e.file.Set()) }
	return direct, func() { _ = closer.Close() }, nil
}

// openQueue returns the queue in the Redis that SOURCE names. Nothing is sent yet.
func (e *DirectEnv) openQueue() (*queue.Queue, io.Closer, error) {
	o, err := redisdb.ParseURL(e.Source)
	if err == nil && o.Cluster() {
		err = errClusterGateway
	}
	if err != nil {
		return nil, nil, program.Exit(program.Usage, fmt.Errorf("SOURCE: %w", err))
	}
	rdb := openRedis(e.login(o), 2*e.Slots+4)
	return queue.New(rdb, e.rules()), rdb, nil
}

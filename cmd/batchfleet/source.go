package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cmd/agent"
	"github.com/batchfleet/batchfleet/cmd/cli"
	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/queue"
)

// runAgent is a worker whose jobs come from a gateway, or from its Redis.
func runAgent(cmd *cobra.Command) error {
	var env agent.Env
	if err := cli.ReadEnv(&env); err != nil {
		return err
	}
	open := agent.OverHTTP(versionText())
	if strings.HasPrefix(env.Source, "redis") {
		open = openDirect
	}
	return cli.Coded(cmd.Context(), env.Run(cmd.Context(), versionText(), open))
}

// openDirect opens the Redis of a gateway, for a worker that may reach it. The
// rules that come with a lease are those of the environment, as for a gateway.
func openDirect(_ context.Context, e *agent.Env) (gateway.ControlPlane, func(), error) {
	q, closer, err := openQueue(e)
	if err != nil {
		return nil, nil, err
	}
	direct, err := control.NewDirect(q, cli.WorkerName(e.Name))
	if err != nil {
		_ = closer.Close()
		return nil, nil, cli.Exit(cli.Usage, fmt.Errorf("WORKER_NAME: %w", err))
	}
	return direct, func() { _ = closer.Close() }, nil
}

// openQueue returns the queue in the Redis that SOURCE names. Nothing is sent yet.
func openQueue(e *agent.Env) (*queue.Queue, io.Closer, error) {
	var env GatewayEnv
	if err := cli.ReadEnv(&env); err != nil {
		return nil, nil, err
	}
	server, err := parseRedis(e.Source)
	if err != nil {
		return nil, nil, cli.Exit(cli.Usage, fmt.Errorf("SOURCE: %w", err))
	}
	if server.Username == "" && server.Password == "" {
		server.Username, server.Password = env.Username, env.Password
	}
	rdb := server.openRedis(2*e.Slots + 4)
	return queue.New(rdb, env.rules()), rdb, nil
}

// parseRedis reads redis://[USER:PASSWORD@]HOST[:PORT][/DB], or rediss:// for
// TLS. Its errors do not quote it: it may hold a password.
func parseRedis(source string) (RedisEnv, error) {
	const want = "want redis://HOST:PORT/DB"
	u, err := url.Parse(source)
	if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return RedisEnv{}, fmt.Errorf("it is no address of Redis: %s", want)
	}
	e := RedisEnv{Host: u.Hostname(), Port: 6379, Username: u.User.Username(), TLS: u.Scheme == "rediss"}
	e.Password, _ = u.User.Password()
	if u.Port() != "" {
		if e.Port, err = strconv.Atoi(u.Port()); err != nil {
			return RedisEnv{}, fmt.Errorf("the port is no number: %s", want)
		}
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if e.DB, err = strconv.Atoi(db); err != nil {
			return RedisEnv{}, fmt.Errorf("the database is no number: %s", want)
		}
	}
	if wrong := cli.Compact(e.Check()); len(wrong) > 0 {
		return RedisEnv{}, wrong[0]
	}
	return e, nil
}

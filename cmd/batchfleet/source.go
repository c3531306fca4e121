package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
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
	ctx := cmd.Context()
	if fromRedis() {
		var env DirectEnv
		if err := cli.ReadEnv(&env); err != nil {
			return err
		}
		return cli.Coded(ctx, env.Run(ctx, versionText(), env.open))
	}
	var env agent.Env
	if err := cli.ReadEnv(&env); err != nil {
		return err
	}
	return cli.Coded(ctx, env.Run(ctx, versionText(), agent.OverHTTP(versionText())))
}

// fromRedis reports whether SOURCE names the Redis of a gateway.
func fromRedis() bool { return strings.HasPrefix(os.Getenv("SOURCE"), "redis") }

// DirectEnv is what a worker needs that leases from the Redis of a gateway. The
// rules that come with a lease are those of its environment, as for a gateway.
type DirectEnv struct {
	agent.Env
	GatewayEnv
}

// Check returns what is wrong with the values, and whether pw.x is missing.
func (e *DirectEnv) Check() []error { return cli.Compact(e.Env.Check(), e.checkRules()) }

// checkRules returns what is wrong with the values that a worker of a gateway
// does not need.
func (e *DirectEnv) checkRules() []error {
	wrong := e.GatewayEnv.Check()
	if e.Name == "" {
		wrong = append(wrong, errors.New("WORKER_NAME must be set with SOURCE=redis://…: what a worker has left undelivered is taken only under the name that leased it"))
	}
	return wrong
}

// open opens the Redis that SOURCE names.
func (e *DirectEnv) open(context.Context, *agent.Env) (gateway.ControlPlane, func(), error) {
	q, closer, err := e.openQueue()
	if err != nil {
		return nil, nil, err
	}
	direct, err := control.NewDirect(q, e.Name)
	if err != nil {
		_ = closer.Close()
		return nil, nil, cli.Exit(cli.Usage, fmt.Errorf("WORKER_NAME: %w", err))
	}
	return direct, func() { _ = closer.Close() }, nil
}

// openQueue returns the queue in the Redis that SOURCE names. Nothing is sent yet.
func (e *DirectEnv) openQueue() (*queue.Queue, io.Closer, error) {
	server, err := parseRedis(e.Source)
	if err != nil {
		return nil, nil, cli.Exit(cli.Usage, fmt.Errorf("SOURCE: %w", err))
	}
	if server.Username == "" && server.Password == "" {
		server.Username, server.Password = e.Username, e.Password
	}
	rdb := server.openRedis(2*e.Slots + 4)
	return queue.New(rdb, e.rules()), rdb, nil
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

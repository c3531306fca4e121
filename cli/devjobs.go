package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/operations"
	"github.com/batchfleet/batchfleet/status"
)

// checkAddresses returns what is wrong with the addresses that dev listens at.
func checkAddresses(addr, redisAddr, httpAddr string) error {
	wrong := errors.Join(settings.CheckListen("--addr", addr, "127.0.0.1:8085"), settings.CheckListen("--redis-addr", redisAddr, "127.0.0.1:6379"))
	if httpAddr != "" {
		wrong = errors.Join(wrong, settings.CheckListen("--http-addr", httpAddr, "127.0.0.1:8080"))
	}
	if wrong != nil {
		return program.Exit(program.Usage, wrong)
	}
	return checkHTTP(httpAddr)
}

// checkHTTP returns what is wrong with the address of the fleet's Job API. The API
// of dev authenticates no callers.
func checkHTTP(addr string) error {
	if addr != "" && !onLoopback(addr) {
		return program.Exit(program.Usage, fmt.Errorf("--http-addr %s is not on loopback: dev has no tokens, and whoever came could use it; `batchfleet gateway` has them", addr))
	}
	return nil
}

// serveJobs answers the Job API at addr, or near it, until ctx ends. An empty addr
// is for none.
func (f *fleet) serveJobs(ctx context.Context, addr string, metrics prometheus.Registerer, log *slog.Logger) error {
	if addr == "" {
		return nil
	}
	var limits JobAPIEnv
	if err := settings.Read(&limits); err != nil {
		return err
	}
	l, err := listenNear(ctx, "the Job API", addr)
	if err != nil {
		return err
	}
	f.http = l.Addr().String()
	rdb := f.env.openRedis(64)
	api := openJobServer(ctx, jobServerConfig{
		env: limits, fleet: FleetEnv{StorageEnv: f.env.StorageEnv, PubSubEnv: f.env.PubSubEnv, LeaseTTL: f.env.LeaseTTL},
		deps: operations.Deps{Status: status.New(rdb)}, kinds: f.kinds, redis: rdb, guard: jobapi.Loopback, metrics: metrics, log: log,
	})
	f.running.Go(func() error {
		api.Run(ctx)
		return nil
	})
	f.running.Go(func() error {
		defer rdb.Close()
		server := &httpd.Server{
			Handler: api.pages(httpd.Health(func() error { return nil })), Log: log, //nolint:contextcheck // pages use the context of their requests
			MaxConns: limits.MaxListeners + 1000, // those who follow jobs leave room for others
		}
		return api.serve(ctx, server, l)
	})
	return nil
}

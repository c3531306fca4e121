package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	jobaccess "github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/metrics"
)

func gridLeaderCommand() *cobra.Command {
	var f gridLeaderFlags
	c := &cobra.Command{
		Use:   "leader PORT",
		Short: "Take jobs of clients and give them to workers, until SIGTERM",
		Long: "Take jobs of clients and give them to workers, and the results back, until SIGTERM. PORT 0 takes a free one; where it\n" +
			"listens is printed. With --dir jobs, their attempts, results and dead letters survive the leader, also kill -9.\n\n" +
			"It listens for this machine alone, unless --addr says otherwise, as --addr 0.0.0.0 with --tls-cert and --tls-key.",
		Example: `  batchfleet grid leader 5000
  batchfleet grid leader 5000 --dir /var/lib/batchfleet/leader --metrics-addr 127.0.0.1:9090
  batchfleet grid leader 5000 --addr 0.0.0.0 --tls-cert leader.pem --tls-key leader.key --acl acl.toml --dir data`,
		Args: cobra.ExactArgs(1),
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		f.port, f.webChosen = args[0], cmd.Flags().Changed("http")
		return program.Coded(cmd.Context(), f.serve(cmd.Context(), cmd.OutOrStdout()))
	}
	f.register(c)
	return c
}

// serve runs a leader until ctx ends.
func (f *gridLeaderFlags) serve(ctx context.Context, out io.Writer) (err error) {
	defer program.Headroom()()
	syscall.Umask(0o077) // what a leader keeps is for its owner alone
	log := program.NewLog(os.Stderr, slog.LevelInfo)
	if err := f.check(); err != nil {
		return program.Exit(program.Usage, err)
	}
	f.warn(ctx, log)
	l := f.leader(log)
	if l.Access, err = f.openRules(); err != nil {
		return program.Exit(program.Usage, err)
	}
	reread := []func() error{l.Reload}
	registry := metrics.NewRegistry(versionText())
	l.Metrics = leader.NewMetrics(registry)
	if err := l.Open(ctx); err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--dir: %w", err))
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	closeBlobs, err := f.openBlobs(ctx, l, log)
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--dir: %w", err))
	}
	defer func() { err = errors.Join(err, closeBlobs()) }()
	listener, err := f.listen(ctx, log, &reread)
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	defer listener.Close()
	return f.run(ctx, l, listener, registry, reread, out, log)
}

// run serves clients, workers and HTTP, until ctx ends.
func (f *gridLeaderFlags) run(ctx context.Context, l *leader.Leader, listener net.Listener, registry *prometheus.Registry, reread []func() error, out io.Writer, log *slog.Logger) error {
	web, err := f.openWeb(ctx, l, registry, log)
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--http: %w", err))
	}
	stopMetrics, err := program.ServeMetrics(ctx, f.metricsAddr, l.Ready, registry, log)
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--metrics-addr: %w", err))
	}
	defer stopMetrics()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	var listening error
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx)) // questions are answered while jobs end
	running.Go(func() { web.run(serving, log) })
	running.Go(func() {
		if listening = l.Serve(ctx, listener); listening != nil {
			stop()
		}
	})
	running.Go(func() { rereadAtHangup(ctx, log, reread) })
	fmt.Fprintf(out, "leader listens on %s\n", listener.Addr())
	if web.url != "" {
		fmt.Fprintf(out, "its Job API is at %s, and its dashboard at %[1]s/\n", web.url)
	}
	log.InfoContext(
		ctx, "leader started", "addr", listener.Addr().String(), "id", l.ID.String(), "dir", f.dir, "sync", f.sync, "http", web.url, "acl", f.acl, "tls", f.certFile != "", "client_ca", f.clientCA,
	)
	err = l.Run(ctx)
	stop()
	stopServing()
	running.Wait()
	log.InfoContext(context.WithoutCancel(ctx), "leader stopped", "err", err)
	if err != nil { // its journal has failed: what starts it again may have more luck
		return program.Exit(program.Unavailable, fmt.Errorf("--dir: %w", err))
	}
	return listening
}

// gridWebServer is the Job API of a leader.
type gridWebServer struct {
	*httpd.Server
	api      *scopeServer
	listener net.Listener
	url      string // empty for none
}

// openWeb opens the Job API, if there is to be one.
func (f *gridLeaderFlags) openWeb(ctx context.Context, l *leader.Leader, registry *prometheus.Registry, log *slog.Logger) (*gridWebServer, error) {
	if f.http == "" {
		return &gridWebServer{}, nil
	}
	guard := jobapi.Loopback
	if f.jobTokens != "" {
		var err error
		if guard, err = jobapi.OpenTokens(f.jobTokens, "", log); err != nil {
			return nil, fmt.Errorf("--job-tokens-file: %w; batchfleet token new makes it", err)
		}
	}
	w := &gridWebServer{Server: &httpd.Server{Log: log}, listener: f.web}
	var err error
	switch {
	case w.listener != nil:
	case f.webChosen:
		w.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", f.http)
	default:
		w.listener, err = listenNear(ctx, "the Job API", f.http)
	}
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if !onLoopback(f.http) {
		w.CertFile, w.KeyFile, scheme = f.certFile, f.keyFile, "https"
	}
	w.url = scheme + "://" + w.listener.Addr().String()
	theirs := leader.Jobs{Leader: l}
	w.api = openScope(&jobapi.Server{
		Scopes: []jobapi.Scope{{Name: leader.Scope, Jobs: theirs, Cancel: jobaccess.Operate, Create: jobaccess.Operate}},
		Log:    log, Metrics: jobapi.NewMetrics(registry), Guard: guard, Admit: httpd.SecureOnly(nil), OpenAPI: describe(ctx, nil, log), Own: gridDeadRoutes(l),
	}, registry, log)
	w.Handler = withDashboard(w.api.Handler(), log, w.api.Admit, httpd.Health(l.Ready)) //nolint:contextcheck // pages use the context of their requests
	return w, nil
}

// run serves until ctx ends.
func (w *gridWebServer) run(ctx context.Context, log *slog.Logger) {
	if w.Server == nil {
		return
	}
	polling, stop := context.WithCancel(ctx)
	var api sync.WaitGroup
	api.Go(func() { w.api.Run(polling) })
	if err := w.Serve(ctx, w.listener); err != nil {
		log.ErrorContext(ctx, "the Job API has ended", "err", err)
	}
	stop()
	api.Wait()
}

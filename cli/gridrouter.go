package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/grid/router"
	"github.com/batchfleet/batchfleet/metrics"
)

// gridRouterFlags are the flags of batchfleet grid router, and its argument.
type gridRouterFlags struct {
	gridListen
	leaders []string
	peer    gridPeer

	maxJobs, maxBytes int // of each connection
}

func gridRouterCommand() *cobra.Command {
	f := gridRouterFlags{peer: gridPeer{prefix: "leader-"}}
	c := &cobra.Command{
		Use:   "router PORT",
		Short: "Be one leader to clients, and pass their jobs on to several, until SIGTERM",
		Long: "Be one leader to clients, and pass their jobs on to several, until SIGTERM: clients connect to the router as to a\n" +
			"leader, workers to the leaders themselves. Which leader gets a job follows from the job's id, so a job that is\n" +
			"submitted again goes to the leader that has it. When a leader is lost, its jobs go to the others after 10 s.\n\n" +
			"The router keeps nothing: when it ends, also by kill -9, jobs go on and results stay with the leaders, and clients go\n" +
			"on when another router takes its place. All routers of the same leaders are to name them in the same way. --acl lets\n" +
			"clients in as that of a leader does; the leaders must let the token of --leader-token-file be any of these clients.\n\n" +
			"It listens for this machine alone, unless --addr says otherwise, as --addr 0.0.0.0 with --tls-cert and --tls-key.",
		Example: `  batchfleet grid router 5000 --leader 10.0.0.1:5000 --leader 10.0.0.2:5000
  batchfleet grid router 5000 --addr 0.0.0.0 --tls-cert router.pem --tls-key router.key --acl acl.toml \
    --leader 10.0.0.1:5000,10.0.0.2:5000 --leader-ca-file ca.pem --leader-token-file token`,
		Args: cobra.ExactArgs(1),
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		f.port = args[0]
		return program.Coded(cmd.Context(), f.serve(cmd.Context(), cmd.OutOrStdout()))
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.leaders, "leader", nil, "address of a leader, HOST:PORT; given once for each, or with commas between them")
	f.register(flags, "clients")
	f.peer.register(flags)
	flags.IntVar(&f.maxJobs, "max-jobs-per-conn", router.DefaultWindow, "jobs of a connection that have not ended; more are refused for the time being")
	flags.IntVar(&f.maxBytes, "max-bytes-per-conn", 64<<20, "bytes of the requests of these jobs together")
	return c
}

// check returns all that is wrong with the flags.
func (f *gridRouterFlags) check() error {
	wrong := f.gridListen.check()
	if len(f.leaders) == 0 {
		wrong = append(wrong, errors.New("--leader is missing: give HOST:PORT of each leader"))
	} else if _, err := leaderList(strings.Join(f.leaders, ",")); err != nil {
		wrong = append(wrong, fmt.Errorf("--leader: %w", err))
	}
	wrong = append(wrong, checkNumbers(
		flagNumber{"--max-jobs-per-conn", int64(f.maxJobs), 1, 1 << 20}, flagNumber{"--max-bytes-per-conn", int64(f.maxBytes), 1 << 20, 1<<31 - 1},
	)...)
	return errors.Join(wrong...)
}

// serve runs a router until ctx ends.
func (f *gridRouterFlags) serve(ctx context.Context, out io.Writer) error {
	defer program.Headroom()()
	log := program.NewLog(os.Stderr, slog.LevelInfo)
	if err := f.check(); err != nil {
		return program.Exit(program.Usage, err)
	}
	f.warn(ctx, log)
	if err := f.peer.open(ctx, f.leaders, log); err != nil {
		return program.Mistake(ctx, err)
	}
	rules, err := f.openRules()
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	registry := metrics.NewRegistry(versionText())
	r := &router.Router{
		Leaders: f.leaders, Token: f.peer.token, Dial: f.peer.dial, Access: rules, Log: log, Metrics: router.NewMetrics(registry),
		MaxConns: f.maxConns, MaxPerIP: f.maxPerIP, Window: f.maxJobs, WindowBytes: f.maxBytes,
	}
	if err := r.Open(); err != nil {
		return program.Exit(program.Usage, err)
	}
	reread := []func() error{r.Reload}
	listener, err := f.listen(ctx, log, &reread)
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	defer listener.Close()
	stopMetrics, err := program.ServeMetrics(ctx, f.metricsAddr, func() error { return context.Cause(ctx) }, registry, log)
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--metrics-addr: %w", err))
	}
	defer stopMetrics()
	reading, stopReading := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { rereadAtHangup(reading, log, reread) })
	fmt.Fprintf(out, "router of %s listens on %s\n", strings.Join(f.leaders, ", "), listener.Addr())
	log.InfoContext(ctx, "router started", "addr", listener.Addr().String(), "id", r.ID.String(), "leaders", f.leaders, "acl", f.acl, "tls", f.certFile != "", "client_ca", f.clientCA)
	err = r.Serve(ctx, listener)
	stopReading()
	beside.Wait()
	log.InfoContext(context.WithoutCancel(ctx), "router stopped", "err", err)
	return err
}

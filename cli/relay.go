package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/relay"
	"github.com/batchfleet/batchfleet/worker"
)

func relayCommand() *cobra.Command {
	var f relayFlags
	c := &cobra.Command{
		Use:   "relay",
		Short: "Run programs of this machine for an orchestrator that asks over REST, until SIGTERM",
		Long: "Run programs of this machine, such as those that need its GPUs, for an orchestrator that asks over REST, and send it\n" +
			"what they have made, until SIGTERM. The programs are those of a kinds file.",
		Example: `  (umask 077 && openssl rand -hex 32 > relay.token)
  batchfleet relay --kinds kinds.toml --token-file relay.token --orchestrator https://orchestrator.example.com`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return program.Coded(cmd.Context(), f.serve(cmd.Context(), cmd.OutOrStdout()))
		},
	}
	f.register(c)
	c.AddCommand(append(relayJobsCommands(), relayDoctorCommand())...)
	return c
}

// serve runs a relay until ctx ends.
func (f *relayFlags) serve(ctx context.Context, out io.Writer) (err error) {
	defer program.Headroom()()
	syscall.Umask(0o077) // what a relay keeps is for its owner alone
	log := program.NewLog(os.Stderr, slog.LevelInfo)
	metrics := worker.NewMetrics(versionText())
	r, err := f.relay(ctx, log)
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	r.Metrics = relay.NewMetrics(metrics.Registry)
	file, err := own.OpenFile(&own.Env{File: f.kinds}, true, log)
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	if len(file.Set().Kinds) == 0 {
		return program.Exit(program.Usage, fmt.Errorf("--kinds: %s has no kinds: docs/kinds.md says how to write one", oneLine(f.kinds)))
	}
	r.Kinds = file.Set
	gpus, err := f.openGPUs(ctx, log)
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--gpus: %w", err))
	}
	f.warn(ctx, log)
	// A killed relay leaves processes. They end before what they have is deleted.
	if n := command.Sweep(); n > 0 {
		log.WarnContext(ctx, "killed processes left over from an earlier relay or worker", "processes", n)
	}
	r.HasGPUs, r.GPUs, r.Slots = gpus.GPUs != "", gpus.GPUs, f.slots
	if err := r.Open(ctx); errors.Is(err, jobs.ErrUnavailable) { // a full disk, say
		return program.Exit(program.Unavailable, fmt.Errorf("--dir: %w", err))
	} else if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--dir: %w", err))
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	log = r.Log // without prompts
	store, err := r.OpenStore()
	if err != nil {
		return err
	}
	defer store.Close()
	work := &own.Work{
		File: file, GPUs: gpus, Store: store, WorkDir: r.TempDir(), Place: r.Place, Rename: true,
		Inline: math.MaxInt32, // results are kept in task.json
		Log:    log,
	}
	pools, err := work.Pools(f.slots)
	if err != nil {
		return program.Exit(program.Usage, relayWords(err))
	}
	w := &worker.Worker{
		Source: r.Source(), Status: r.Status(), Log: log, Metrics: metrics, Pools: pools, Drain: max(f.drain, 1), // 0 would mean the default
		Checks:     map[string]func(context.Context) error{"disk": r.Check, "storage": store.Check},
		JobTimeout: 24 * time.Hour, StallTimeout: time.Hour, LeaseTTL: 24 * time.Hour,
	}
	if err := work.Start(ctx, metrics.Registry, w.Replace); err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--dir: %w", err))
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	file.Use(func(*kinds.Set) { r.KindsChanged() })
	w.Init()
	w.ForceStop = program.SecondSignal()
	return f.run(ctx, r, w, out, log)
}

// warn says what is allowed and yet seldom meant.
func (f *relayFlags) warn(ctx context.Context, log *slog.Logger) {
	if !onLoopback(f.addr) && f.certFile == "" && f.listener == nil {
		log.WarnContext(ctx, "requests, and the token with them, are not encrypted", "addr", f.addr, "do", "give --tls-cert and --tls-key, or listen in a VPN alone")
	}
	if mode, ok := readByOthers(f.tokenFile); ok {
		log.WarnContext(ctx, "other users of this machine may read the token", "file", f.tokenFile, "mode", mode, "do", "chmod 600")
	}
	if f.orchestrator == "" {
		log.WarnContext(ctx, "without --orchestrator nothing is uploaded: files are fetched from this relay")
	}
}

// run serves HTTP and runs the worker, until ctx ends.
func (f *relayFlags) run(ctx context.Context, r *relay.Relay, w *worker.Worker, out io.Writer, log *slog.Logger) error {
	handler, api, err := f.handler(r, w, log) //nolint:contextcheck // pages use the context of their requests
	if err != nil {
		return err
	}
	l, err := f.listen(ctx)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w (is another relay running?)", err)
	}
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--addr: %w", err))
	}
	stopMetrics, err := program.ServeMetrics(ctx, f.metricsAddr, w.Ready, w.Metrics.Registry, log)
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--metrics-addr: %w", err))
	}
	defer stopMetrics()
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop() // also when the server ends by itself
	// Deliveries outlive the worker: what the last tasks end with is sent, or is on disk.
	delivering, stopDelivering := context.WithCancel(context.WithoutCancel(ctx))
	running.Go(func() { r.Run(delivering) })
	running.Go(func() { api.Run(ctx) })
	running.Go(func() { f.renewTokens(ctx, r, log) })
	running.Go(func() {
		defer stopDelivering()
		if err := w.Run(ctx); err != nil {
			log.ErrorContext(ctx, "the worker has ended", "err", err)
			stop()
		}
	})
	scheme := "http"
	if f.certFile != "" {
		scheme = "https"
	}
	fmt.Fprintf(out, "relay listens on %s://%s\n", scheme, l.Addr())
	log.InfoContext(ctx, "relay started", "addr", l.Addr().String(), "dir", f.dir, "kinds", each(r.Kinds().Kinds, func(k *kinds.Kind) jobs.Kind { return k.Name }), "orchestrator", r.Orchestrator != nil, "presigned", r.Presigned, "signed_callbacks", r.Secret != nil)
	server := &httpd.Server{Handler: handler, Log: log, CertFile: f.certFile, KeyFile: f.keyFile}
	err = server.Serve(ctx, l)
	stop()
	running.Wait()
	log.InfoContext(context.WithoutCancel(ctx), "relay stopped", "err", err)
	return err
}

// renewTokens reads the file of tokens again at each SIGHUP, until ctx ends, so that they can change while tasks run.
func (f *relayFlags) renewTokens(ctx context.Context, r *relay.Relay, log *slog.Logger) {
	if f.tokenFile == "-" {
		return
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
		}
		tokens, err := settings.ReadTokens(ctx, f.tokenFile, maxTokens)
		if err == nil {
			err = r.RenewTokens(tokens)
		}
		if err != nil {
			log.ErrorContext(ctx, "the tokens stay as they are", "err", err)
			continue
		}
		log.InfoContext(ctx, "read the tokens again", "tokens", len(tokens))
	}
}

func (f *relayFlags) listen(ctx context.Context) (net.Listener, error) {
	if f.listener != nil {
		return f.listener, nil
	}
	return (&net.ListenConfig{}).Listen(ctx, "tcp", f.addr)
}

// handler answers the relay's routes, and those of the Job API, which take the relay's token as a bearer token.
func (f *relayFlags) handler(r *relay.Relay, w *worker.Worker, log *slog.Logger) (http.Handler, *scopeServer, error) {
	guarded := rand.Text() // the guard's one token, whichever of the relay's is used
	guard, err := jobapi.OpenTokens("", guarded, log)
	if err != nil {
		return nil, nil, err
	}
	api := openScope(&jobapi.Server{
		Scopes: []jobapi.Scope{{Name: relay.Scope, Jobs: relay.Jobs{Relay: r}, Cancel: access.Operate, Create: access.Operate}},
		Log:    log, Metrics: jobapi.NewMetrics(w.Metrics.Registry), Guard: guard, Admit: func(req *http.Request) error {
			if err := r.Access.AdmitAddress(req); err != nil {
				return err
			}
			if token, err := httpd.Bearer(req); err != nil || token != guarded { // nothing tells without a token which routes there are
				return &httpd.StatusError{Status: http.StatusUnauthorized, Err: errors.New("want the token of this relay as a bearer token")}
			}
			return nil
		},
	}, w.Metrics.Registry, log)
	inner := api.Handler()
	jobAPI := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if token, err := httpd.Bearer(req); err == nil && r.Accepts(token) {
			req.Header.Set("Authorization", "Bearer "+guarded)
		}
		inner.ServeHTTP(w, req)
	})
	return withDashboard(jobAPI, log, r.Access.AdmitAddress, r.Handler()), api, nil
}

// relayWords says an error about GPUs in the words of a relay's flags.
func relayWords(err error) error {
	return errors.New(strings.ReplaceAll(err.Error(), "WORKER_GPUS names", "--gpus gives"))
}

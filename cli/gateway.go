package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/provider"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/operations"
	"github.com/batchfleet/batchfleet/redact"
	"github.com/batchfleet/batchfleet/safefile"
	"github.com/batchfleet/batchfleet/status"
)

// gatewayFlags are the flags of batchfleet gateway.
type gatewayFlags struct {
	addr, metricsAddr     string
	adminFile, clientFile string
	certFile, keyFile     string
	jobTokens             string
	kinds                 string
	proxies               []string
	open, readOnly        bool
}

func gatewayCommand() *cobra.Command {
	var f gatewayFlags
	c := &cobra.Command{
		Use:   "gateway",
		Short: "Hand out jobs over HTTP to workers behind NAT, from Redis, until SIGTERM",
		Args:  cobra.NoArgs,
		RunE: settings.With(func(cmd *cobra.Command, env *GatewayEnv, _ []string) error {
			env.KindsFile = cmp.Or(f.kinds, env.KindsFile)
			return f.serve(cmd.Context(), env, cmd.OutOrStdout())
		}),
	}
	flags := c.Flags()
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8080", "where to listen; port 0 for a free one, which is printed")
	flags.StringVar(&f.metricsAddr, "metrics-addr", "", "where to serve /metrics, beside /healthz and /readyz, without credentials")
	flags.StringVar(&f.adminFile, "admin-token-file", "", "file with the token of the operators' routes, which are closed without it; - for standard input")
	flags.StringVar(&f.clientFile, "client-token-file", "", "file with the token of those who submit, read and cancel jobs; - for standard input")
	flags.StringVar(&f.jobTokens, "job-tokens-file", "", "file with the tokens of the Job API, which batchfleet token new makes; the admin token is good for it, too")
	flags.StringVar(&f.kinds, "kinds", "", "kinds file: the kinds of jobs that are handed out beside zpe; KINDS_FILE when empty")
	flags.BoolVar(&f.readOnly, "read-only", false, "let the Job API show jobs, and neither cancel nor start any")
	flags.BoolVar(&f.open, "open-submission", false, "let everybody who reaches this gateway submit, read and cancel jobs, but no web page of others")
	flags.StringVar(&f.certFile, "tls-cert", "", "certificate chain in PEM, with --tls-key")
	flags.StringVar(&f.keyFile, "tls-key", "", "key of the certificate")
	flags.StringSliceVar(&f.proxies, "trusted-proxy", nil, "networks, as 10.0.0.0/8, of proxies that end TLS and say X-Forwarded-Proto")
	c.AddCommand(gatewayFsckCommand())
	return c
}

// maxConns leaves room for results beside the 10 000 requests that may wait for a
// job and the 10 000 heartbeats that may wait for a cancel, each on a connection of
// its own with HTTP/1.1. Those that follow a job, JOB_API_MAX_LISTENERS, come on top.
const maxConns = 26_000

// serve runs a gateway until ctx ends.
func (f *gatewayFlags) serve(ctx context.Context, env *GatewayEnv, out io.Writer) error {
	defer program.Headroom()()
	log := program.NewLog(os.Stderr, slog.LevelInfo)
	admin, client, proxies, err := f.check(ctx, log)
	if err != nil {
		return program.Mistake(ctx, err)
	}
	file, err := own.OpenFile(&own.Env{File: env.KindsFile}, false, log)
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	files, err := env.files(ctx, file.Set())
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	guard, err := guardJobs(f.jobTokens, admin, f.alone(), log)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; batchfleet token new makes it", err)
	}
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--job-tokens-file: %w", err))
	}
	if client == "" && !f.open {
		log.Warn("everybody on this machine may submit, read and cancel jobs", "do", "give --client-token-file")
	}
	rdb := env.openRedis(256)
	defer rdb.Close()
	q := queue.New(rdb, env.rules())
	c := &control.Control{
		Queue: q, Log: log, Metrics: control.NewMetrics(versionText(), q),
		AdminToken: admin, ClientToken: client, OpenSubmission: f.open, Period: env.Reap.D(),
		Admit:        httpd.SecureOnly(proxies),
		CheckPayload: checkPayload, Files: files,
	}
	if files != nil {
		file.Use(func(set *kinds.Set) { c.ReplaceKinds(control.KindsOf(set)) })
	}
	q.OnUnreplicated = func() {
		c.Metrics.Unreplicated()
		log.WarnContext(ctx, "no replica of Redis has answered in time; what was just taken is on the primary alone")
	}
	q.OnReplicasUnknown = func() {
		log.WarnContext(ctx, "Redis refuses ROLE; no answer waits for a replica", "do", "allow the user ROLE and WAIT")
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w (is another gateway or `batchfleet dev` running?)", err)
	}
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--addr: %w", err))
	}
	ready := func() error { return q.Check(context.WithoutCancel(ctx)) }
	stopMetrics, err := program.ServeMetrics(ctx, f.metricsAddr, withoutSecrets(ready), c.Metrics.Registry, log)
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--metrics-addr: %w", err))
	}
	defer stopMetrics()
	var others jobapi.Jobs
	if files != nil {
		others = &provider.Kinds{
			ZPE:  &provider.ZPE{Queue: q, Others: true, Stop: c.Cancel, QueuedKind: c.QueuedKind, OpenFile: files.OpenArtifact},
			Give: c.SubmitKind,
		}
	}
	api := openJobServer(ctx, jobServerConfig{
		env: env.JobAPIEnv, fleet: env.FleetEnv, deps: operations.Deps{Status: status.New(rdb), Queue: q}, kinds: file, redis: rdb,
		zpe: &provider.ZPE{Queue: q, Stop: c.Cancel, Queued: c.Queued}, others: others, guard: guard, readOnly: f.readOnly, admit: c.Admit, metrics: c.Metrics.Registry, log: log,
	})
	handler := withHealth(api.pages(c.Handler()), ready) //nolint:contextcheck // pages use the context of their requests
	running, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer stop() // also when the server ends by itself
	background.Go(func() { c.Run(running) })
	background.Go(func() { api.Run(running) })
	background.Go(func() { file.Run(running, c.Metrics.Registry) })

	scheme := "http"
	if f.certFile != "" {
		scheme = "https"
	}
	fmt.Fprintf(out, "gateway listens on %s://%s\n", scheme, l.Addr())
	log.InfoContext(
		ctx, "gateway started", "addr", l.Addr().String(), "admin", admin != "", "client_token", client != "",
		"job_tokens", guard.Tokens(), "kinds", len(file.Set().Kinds), "read_only", f.readOnly, "tls", f.certFile != "",
	)
	server := &httpd.Server{Handler: handler, Log: log, CertFile: f.certFile, KeyFile: f.keyFile, MaxConns: maxConns + env.MaxListeners}
	if err := api.serve(ctx, server, l); err != nil {
		log.ErrorContext(ctx, "gateway stopped", "err", err)
		return err
	}
	log.InfoContext(context.WithoutCancel(ctx), "gateway stopped")
	return nil
}

// check reads the files of the flags and returns all that is wrong with them. It logs
// nothing if anything is.
func (f *gatewayFlags) check(ctx context.Context, log *slog.Logger) (admin, client string, proxies []netip.Prefix, err error) {
	wrong := []error{settings.CheckListen("--addr", f.addr, "127.0.0.1:8080")}
	if f.metricsAddr != "" {
		wrong = append(wrong, settings.CheckListen("--metrics-addr", f.metricsAddr, "127.0.0.1:9090"))
	}
	readable := map[string]string{} // files that others may read, with their mode
	secret := func(flag, file string) string {
		if file == "" {
			return ""
		}
		token, err := readSecret(ctx, file)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", flag, err))
		}
		if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
			readable[file] = info.Mode().Perm().String()
		}
		return token
	}
	admin, client = secret("--admin-token-file", f.adminFile), secret("--client-token-file", f.clientFile)
	wrong = append(wrong, f.checkTokens(admin, client)...)
	for _, p := range f.proxies {
		prefix, err := netip.ParsePrefix(p)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--trusted-proxy is %q: want a network such as 10.0.0.0/8", p))
			continue
		}
		proxies = append(proxies, prefix)
	}
	if (f.certFile == "") != (f.keyFile == "") {
		wrong = append(wrong, errors.New("--tls-cert and --tls-key come together"))
	} else if f.certFile != "" {
		wrong = append(wrong, checkCertificate(f.certFile, f.keyFile))
	}
	if !onLoopback(f.addr) {
		if f.certFile == "" && len(proxies) == 0 {
			wrong = append(wrong, fmt.Errorf("--addr %s is not on loopback: give --tls-cert and --tls-key, or the --trusted-proxy that ends TLS", f.addr))
		}
		if f.clientFile == "" && !f.open {
			wrong = append(wrong, fmt.Errorf("--addr %s is not on loopback: give --client-token-file, or --open-submission to let everybody submit and read jobs", f.addr))
		}
	}
	if err = errors.Join(wrong...); err == nil {
		for file, mode := range readable {
			log.Warn("other users of this machine may read a token", "file", file, "mode", mode, "do", "chmod 600")
		}
	}
	return admin, client, proxies, err
}

// checkTokens returns how the tokens contradict each other.
func (f *gatewayFlags) checkTokens(admin, client string) (wrong []error) {
	if f.clientFile != "" && f.open {
		wrong = append(wrong, errors.New("--client-token-file and --open-submission contradict each other: give one of them"))
	}
	if admin == "" {
		return wrong
	}
	if httpd.SameToken(admin, client) {
		wrong = append(wrong, errors.New("--admin-token-file and --client-token-file hold the same token, so all who submit would be operators: make another, as with: openssl rand -hex 32"))
	}
	if f.jobTokens != "" {
		hash := sha256.Sum256([]byte(admin))
		tokens, _ := access.ReadTokens(f.jobTokens) // what is wrong with the file is said when it is opened
		if i := slices.IndexFunc(tokens, func(t access.Token) bool { return t.Hash == hash }); i >= 0 {
			wrong = append(wrong, fmt.Errorf("the token in --admin-token-file is that of %s in --job-tokens-file, which would have all rights of an operator: make another, as with: openssl rand -hex 32", oneLine(tokens[i].Name)))
		}
	}
	return wrong
}

// checkCertificate returns, in one line, what is wrong with the files of a certificate.
func checkCertificate(cert, key string) error {
	var unread []string
	for _, f := range []struct{ flag, file string }{{"--tls-cert", cert}, {"--tls-key", key}} {
		if _, err := safefile.ReadLinked(f.file, httpd.MaxPEM); err != nil {
			unread = append(unread, f.flag+": "+err.Error())
		}
	}
	if len(unread) > 0 {
		return errors.New(strings.Join(unread, "; "))
	}
	if _, err := httpd.LoadCertificate(cert, key); err != nil {
		return fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	return nil
}

// alone reports whether nothing says that others than callers on this machine come.
func (f *gatewayFlags) alone() bool {
	return onLoopback(f.addr) && f.clientFile == "" && len(f.proxies) == 0 && f.certFile == "" && !f.open
}

func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return true // which settings.CheckListen refuses
	}
	return httpd.IsLoopback(host)
}

// minSecret is the shortest token that is taken, in bytes: too long to guess
// over the network.
const minSecret = 20

// readSecret returns the token in a file, if it is long enough.
func readSecret(ctx context.Context, file string) (string, error) {
	token, err := settings.ReadToken(ctx, file)
	if err == nil && len(token) < minSecret {
		return "", fmt.Errorf("the token in %s has %d characters: want %d or more, as from: openssl rand -hex 32", file, len(token), minSecret)
	}
	return token, err
}

// withHealth answers /healthz and /readyz beside the gateway's own routes.
// Strangers may ask, so of what is wrong with Redis they learn no more than
// whether it is of a kind that will not do.
func withHealth(api http.Handler, ready func() error) http.Handler {
	health := httpd.Health(func() error {
		err := ready()
		if err == nil {
			return nil
		}
		for _, kind := range []error{queue.ErrCluster, queue.ErrEvicts, queue.ErrRefuses} {
			if errors.Is(err, kind) {
				return kind
			}
		}
		return errors.New("cannot work with Redis; /readyz of --metrics-addr says why")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
			health.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// withoutSecrets returns ready with errors whose text may be shown: Redis says what
// it likes.
func withoutSecrets(ready func() error) func() error {
	return func() error {
		if err := ready(); err != nil {
			return errors.New(redact.Text(err.Error()))
		}
		return nil
	}
}

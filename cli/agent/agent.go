// Package agent is the command of a worker that leases from a gateway: over
// HTTP, or from the gateway's own Redis.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/zpe"
	"github.com/batchfleet/batchfleet/safefile"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker"
)

// An Open opens the control plane that a SOURCE names; close ends it.
type Open func(ctx context.Context, e *Env) (plane gateway.ControlPlane, close func(), err error)

// Run is [Env.RunKinds] of a worker that has no other kinds.
func (e *Env) Run(ctx context.Context, version string, open Open) error {
	return e.RunKinds(ctx, version, open, func(*slog.Logger) (Kinds, error) { return Kinds{}, nil })
}

// RunKinds is the life of an agent, until ctx ends. version is that of the program; kinds returns the
// kinds beside zpe.
func (e *Env) RunKinds(ctx context.Context, version string, open Open, kinds func(*slog.Logger) (Kinds, error)) error {
	defer program.Headroom()()
	log := program.NewLog(os.Stderr, slog.LevelInfo)
	others, err := kinds(log)
	if err != nil {
		return err
	}
	e.kinds = others
	plane, closePlane, err := open(ctx, e)
	if err != nil {
		return err
	}
	defer closePlane()
	if err := e.MakeDirs(); err != nil {
		return program.Exit(program.Usage, fmt.Errorf("AGENT_DIR: %w", err))
	}
	store, err := storage.NewLocal(filepath.Join(e.Dir, "store"))
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("AGENT_DIR: %w", err))
	}
	defer store.Close()
	// A killed agent leaves processes. They end before their directories are deleted.
	if n := command.Sweep(); n > 0 {
		log.WarnContext(ctx, "killed processes left over from an earlier worker", "processes", n)
	}
	zpe, forget, err := e.handlers(ctx, store, log)
	if err != nil {
		return err
	}
	a := &gateway.Agent{
		Gateway: plane, Store: store, Dir: filepath.Join(e.Dir, "leases"), Log: log, Encode: encodeReport, EncodeKind: encodeKind, Forget: forget,
	}
	for kind := range zpe {
		a.Kind = kind
	}
	if err := a.Open(ctx); err != nil {
		return program.Exit(program.Usage, fmt.Errorf("AGENT_DIR: %w", err))
	}
	defer func() { _ = a.Close() }() // the process ends, and with it the lock
	// A killed agent leaves these unfinished. No other process uses them.
	if n, err := store.SweepTemp(ctx); err != nil || n > 0 {
		log.InfoContext(ctx, "swept unfinished files", "files", n, "err", err)
	}
	if err := empty(e.workDir()); err != nil {
		log.WarnContext(ctx, "cannot empty the work directory", "dir", e.workDir(), "err", err)
	}
	w := e.worker(a, store, version, log)
	closeKinds, err := e.startKinds(ctx, a, w, zpe, log)
	if err != nil {
		return err
	}
	defer closeKinds()
	w.Init()
	w.ForceStop = program.SecondSignal()
	stopHTTP, err := program.ServeWorker(ctx, e.HTTPAddr, w)
	if err != nil {
		return err
	}
	defer stopHTTP()

	// The agent outlives the loop: what the last jobs end with is delivered.
	delivering, stop := context.WithCancel(context.WithoutCancel(ctx))
	var delivery sync.WaitGroup
	delivery.Go(func() { a.Run(delivering) })
	log.InfoContext(ctx, "agent started", "source", Redacted(e.Source), "processor", e.Kind, "slots", e.slots(), "dir", e.Dir)
	err = w.Run(ctx)
	stop()
	delivery.Wait()
	log.InfoContext(context.WithoutCancel(ctx), "agent stopped", "err", err)
	if err != nil {
		err = e.withHint(err)
	}
	return program.WorkerEnded(err)
}

// withHint adds what to do when the gateway does not take the token any more.
func (e *Env) withHint(err error) error {
	refused := (*gateway.Error)(nil)
	if errors.As(err, &refused) && refused.TokenRefused() {
		return fmt.Errorf("%w; the token is in %s: register again with an enroll token of the gateway's operator, then restart this worker", err, e.TokenFile)
	}
	return err
}

func (e *Env) worker(a *gateway.Agent, store storage.Store, version string, log *slog.Logger) *worker.Worker {
	pools := e.kinds.Pools
	if len(pools) == 0 {
		pools = []worker.Pool{{Slots: e.Slots}}
	}
	return &worker.Worker{
		Source: a, Status: a, Log: log, Metrics: worker.NewMetrics(version),
		Checks: map[string]func(context.Context) error{"agent directory": a.Check, "storage": store.Check},
		Pools:  pools, Drain: max(e.Drain.D(), 1), // 0 would mean the default

		JobTimeout: e.JobTimeout.D(), StallTimeout: e.StallTimeout.D(), SettleTimeout: e.SettleTimeout.D(),
		StartTimeout: max(e.StartTimeout.D(), 1), IdleExit: e.IdleExit.D(), MaxRuntime: e.MaxRuntime.D(),
	}
}

// handler returns what runs the jobs of kind zpe, and what deletes its traces.
func (e *Env) handler(ctx context.Context, store storage.Store, log *slog.Logger) (worker.Handler, func(context.Context, jobs.ID) error, error) {
	if jobs.Kind(e.Kind) == kindMock {
		log.WarnContext(ctx, "PROCESSOR is mock: this worker takes real jobs, calculates nothing, and finishes them with made-up results")
		m := mock{
			store: store, minSteps: int(e.MockPages.Low), maxSteps: int(e.MockPages.High),
			minStep: settings.Duration(e.MockPageSeconds.Low), maxStep: settings.Duration(e.MockPageSeconds.High),
		}
		return m, m.forget, nil
	}
	h, err := e.espresso(store, log)
	if err != nil {
		return nil, nil, program.Exit(program.Usage, err)
	}
	found, err := h.Probe(ctx)
	if err != nil {
		return nil, nil, program.Exit(program.Usage, fmt.Errorf("look for Quantum ESPRESSO: %w", err))
	}
	log.InfoContext(ctx, "found Quantum ESPRESSO", "pw", found.PwX, "version", found.Version, "pseudopotentials", found.Pseudos, "in", found.PseudoDir)
	return h, h.Forget, nil
}

// encodeReport makes what a gateway is sent out of the result of a job. Both kinds store theirs in the
// form of package zpe.
func encodeReport(result []byte) (wire.ResultRequest, error) {
	r, err := zpe.ParseReport(result)
	if err != nil {
		return wire.ResultRequest{}, err
	}
	return wire.ResultRequest{Result: r.Result, SummaryText: r.SummaryText, FreqsCSV: r.FreqsCSV, Meta: r.Meta}, nil
}

// Probe looks for Quantum ESPRESSO as a worker does when it starts.
func (e *Env) Probe(ctx context.Context) (zpe.Found, error) {
	h, err := e.espresso(nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return zpe.Found{}, err
	}
	return h.Probe(ctx)
}

// espresso returns the handler of kind zpe.
func (e *Env) espresso(store storage.Store, log *slog.Logger) (*zpe.Handler, error) {
	pwx, err := e.pwx()
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{"QE_PW": pwx, "QE_PSEUDO_DIR": e.PseudoDir, "AGENT_DIR": e.workDir()}
	for name, path := range dirs {
		if dirs[name], err = filepath.Abs(path); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := os.MkdirAll(dirs["AGENT_DIR"], 0o700); err != nil {
		return nil, fmt.Errorf("AGENT_DIR: %w", err)
	}
	return &zpe.Handler{
		Store: store, PwX: dirs["QE_PW"], PseudoDir: dirs["QE_PSEUDO_DIR"], WorkDir: dirs["AGENT_DIR"], Parallel: e.Parallel, Threads: e.Threads, Log: log,
		Limits: command.Limits{Memory: e.Memory, Wall: e.RunTime.D(), CPU: e.RunTime.D() * time.Duration(e.Threads), FileBytes: 1 << 40},
	}, nil
}

// workDir is where pw.x runs.
func (e *Env) workDir() string { return filepath.Join(e.Dir, "work") }

// MakeDirs makes AGENT_DIR and what is in it, and returns why others could change
// what this agent delivers or deletes. AGENT_DIR may be a link; what is in it may not.
func (e *Env) MakeDirs() error {
	if err := os.MkdirAll(e.Dir, 0o700); err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(e.Dir)
	if err != nil {
		return err
	}
	for _, sub := range []string{"", "leases", "store", "work"} {
		err = errors.Join(err, safefile.Dir(filepath.Join(dir, sub)))
	}
	return err
}

// empty deletes what is in dir, but not dir: it may be a disk of its own.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		err = errors.Join(err, safefile.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	return err
}

// OverHTTP opens a gateway. SOURCE is its address.
func OverHTTP(version string) Open {
	return func(_ context.Context, e *Env) (gateway.ControlPlane, func(), error) {
		if strings.HasPrefix(e.Source, "redis") {
			return nil, nil, program.Exit(program.Usage, errors.New("SOURCE is a Redis server: this program speaks to gateways only; want https://HOST"))
		}
		c, _, err := e.Client(version)
		if err != nil {
			return nil, nil, program.Exit(program.Usage, err)
		}
		return c, c.Close, nil
	}
}

// Client returns a client of the gateway that SOURCE names, and its token. It
// makes no call. The error names the variable at fault.
func (e *Env) Client(version string) (*gateway.Client, gateway.Token, error) {
	tokens, err := gateway.OpenTokenFile(e.TokenFile)
	if err != nil {
		return nil, gateway.Token{}, fmt.Errorf("WORKER_TOKEN_FILE: %w", err)
	}
	c, err := gateway.NewClient(gateway.ClientConfig{
		URL: e.Source, CAFile: e.CAFile, Tokens: tokens, Connections: 2*e.slots() + 4, Version: version,
	})
	if err != nil {
		return nil, gateway.Token{}, e.Explain(err, tokens.Token())
	}
	return c, tokens.Token(), nil
}

// Explain says which variable is at fault when there can be no client.
func (e *Env) Explain(err error, token gateway.Token) error {
	switch {
	case errors.Is(err, gateway.ErrCAFile):
		return fmt.Errorf("GATEWAY_CA_FILE: %w", err)
	case errors.Is(err, gateway.ErrOtherGateway):
		source := Redacted(e.Source)
		return fmt.Errorf("SOURCE is %s, but the token in %s is for %s; register with %s, or correct SOURCE", source, e.TokenFile, Redacted(token.Gateway), source)
	}
	return fmt.Errorf("SOURCE: %w", err)
}

// Redacted returns the parts of an address that cannot hold a password.
func Redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Host == "" {
		if scheme, _, ok := strings.Cut(address, "://"); ok && strings.HasPrefix(scheme, "redis+") {
			return scheme + "://…" // several hosts, which are no URL
		}
		return "an address that cannot be read"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

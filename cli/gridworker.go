package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/grid/exec"
	"github.com/batchfleet/batchfleet/grid/member"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/outbox"
	"github.com/batchfleet/batchfleet/safefile"
	"github.com/batchfleet/batchfleet/worker"
)

func gridWorkerCommand() *cobra.Command {
	var f gridWorkerFlags
	c := &cobra.Command{
		Use:   "worker HOST [PORT] [PATTERN]",
		Short: "Run the jobs that a leader gives out, until SIGTERM",
		Long: "Run the jobs that a leader gives out, until SIGTERM. A leader is given as HOST PORT or HOST:PORT, several as\n" +
			"HOST:PORT,HOST:PORT. PATTERN says which jobs: those whose subject, job.assign.EXEC, it matches; * stands for one part\n" +
			"of it, and > at its end for one or more. Without one it is job.assign.*. EXEC is a kind of the kinds file, or else the\n" +
			"program EXEC.exe.\n\n" +
			"Settings: WORKER_MAX_PAR (how many jobs at once), WORKER_CPU_CAP and KINDS_FILE, see docs/configuration.md.",
		Example: `  batchfleet grid worker 127.0.0.1 5000 job.assign.*
  batchfleet grid worker 127.0.0.1 5000 --kinds kinds.toml
  batchfleet grid worker 10.0.0.1:5000,10.0.0.2:5000 'job.assign.gpu.>' --exe-dir /srv/exe --tls`,
		Args: cobra.RangeArgs(1, 3),
		RunE: settings.With(func(cmd *cobra.Command, env *GridWorkerEnv, args []string) error {
			if err := errors.Join(f.arguments(args), f.check()); err != nil {
				return program.Exit(program.Usage, err)
			}
			return f.serve(cmd.Context(), env, cmd.OutOrStdout())
		}),
	}
	f.register(c)
	return c
}

// serve runs a worker until ctx ends.
func (f *gridWorkerFlags) serve(ctx context.Context, env *GridWorkerEnv, out io.Writer) (err error) {
	defer program.Headroom()()
	syscall.Umask(0o077) // what programs leave is for their owner alone
	log := program.NewLog(os.Stderr, slog.LevelInfo)
	if limit := env.cap(); limit != float64(env.CPUCap) {
		log.WarnContext(ctx, "WORKER_CPU_CAP is out of its limits", "is", float64(env.CPUCap), "used", limit)
	}
	if err := f.peer.open(ctx, f.leaders, log); err != nil {
		return program.Mistake(ctx, err)
	}
	// A killed worker leaves processes. They end before what they have is deleted.
	if n := command.Sweep(); n > 0 {
		log.WarnContext(ctx, "killed processes left over from an earlier worker", "processes", n)
	}
	runner := &exec.Runner{ExeDir: f.exeDir, JobsDir: f.jobsDir, CacheDir: f.cacheDir, Path: f.path, Limits: f.limits, Log: log}
	file, err := f.openKinds(env, runner)
	if err != nil {
		return err
	}
	f.warnOfPrograms(ctx, file != nil, log)
	if err := runner.Open(); err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--jobs-dir: %w", err))
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	metrics := worker.NewMetrics(versionText())
	m, err := f.openMember(ctx, env, member.NewMetrics(metrics.Registry), log)
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--dir: %w", err))
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	runner.Fetch, runner.Store, runner.StoreCheckpoint = m.Fetch, m.Store, m.StoreCheckpoint
	w := &worker.Worker{
		Source: m, Status: m, Log: log, Metrics: metrics, Pools: []worker.Pool{{Slots: env.MaxPar}}, Drain: max(f.drain, 1), // 0 would mean the default
		Handlers: map[jobs.Kind]worker.Handler{member.Kind: m.Handler(&exec.Handler{Runner: runner})},
		Checks:   map[string]func(context.Context) error{"results": m.Check, "disk": runner.Ready},
	}
	w.Init()
	w.ForceStop = program.SecondSignal()
	return f.run(ctx, w, m, runner, file, out)
}

// openMember opens the end that is connected to leaders, with the first directory for results that no other worker uses.
func (f *gridWorkerFlags) openMember(ctx context.Context, env *GridWorkerEnv, metrics *member.Metrics, log *slog.Logger) (*member.Member, error) {
	if err := safefile.Dir(f.dir); err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		m := &member.Member{
			Leaders: f.leaders, Dial: f.peer.dial, Token: f.peer.token, Pattern: f.pattern, MaxParallel: env.MaxPar, KeepRunning: f.keepRunning, Version: versionText(),
			Dir: f.ownDir(n), Gate: &member.Gate{Cap: env.cap(), Cores: runtime.NumCPU(), Usage: member.NewUsage()}, Log: log, Metrics: metrics,
		}
		err := m.Open(ctx)
		if err == nil {
			return m, nil
		}
		if !errors.Is(err, outbox.ErrInUse) || n == maxWorkersHere {
			return nil, err
		}
	}
}

// maxWorkersHere is how many workers of the same leaders may share a directory.
const maxWorkersHere = 1000

// run runs the worker until ctx ends.
func (f *gridWorkerFlags) run(ctx context.Context, w *worker.Worker, m *member.Member, runner *exec.Runner, file *own.File, out io.Writer) error {
	stopMetrics, err := program.ServeMetrics(ctx, f.metricsAddr, w.Ready, w.Metrics.Registry, w.Log)
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--metrics-addr: %w", err))
	}
	defer stopMetrics()
	fmt.Fprintf(out, "worker of %s takes %s\n", f.leaders, m.Pattern)
	w.Log.InfoContext(ctx, "worker started", "leaders", f.leaders, "pattern", m.Pattern, "id", m.ID.String(), "slots", m.MaxParallel, "cpu_cap", m.Gate.Cap, "exe_dir", f.exeDir, "jobs_dir", f.jobsDir, "dir", m.Dir)
	// The connections outlive the loop: its last results are to arrive.
	connected, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	tending, stopTending := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { m.Run(connected) })
	beside.Go(func() { runner.Tend(tending) })
	if file != nil {
		beside.Go(func() { file.Run(tending, w.Metrics.Registry) })
	}
	stopDrain := context.AfterFunc(ctx, func() {
		m.Drain()
		runner.Drain()
	})
	err = w.Run(ctx)
	stopDrain()
	stopTending()
	disconnect()
	beside.Wait()
	w.Log.InfoContext(context.WithoutCancel(ctx), "worker stopped", "err", err)
	return program.WorkerEnded(err)
}

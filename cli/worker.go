package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/agent"
	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/processor"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker"
)

func workerCommand() *cobra.Command {
	kindsFile := ""
	c := &cobra.Command{
		Use:   "worker",
		Short: "Lease jobs and run them, until SIGTERM: from Pub/Sub, or from where SOURCE says",
		Long: "Leases jobs and runs them, until SIGTERM: from the Pub/Sub of PUBSUB_SUBSCRIPTION, PUBSUB_EMULATOR_HOST and\n" +
			"GCP_PROJECT_ID, with REDIS_... and STORAGE_TYPE, or from the gateway that SOURCE names. Settings: docs/configuration.md.\n\n" + agent.Settings,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := useKindsFile(kindsFile); err != nil {
				return err
			}
			if os.Getenv("SOURCE") != "" {
				return runAgent(cmd, args)
			}
			return settings.With(runWorker)(cmd, args)
		},
	}
	c.Flags().StringVar(&kindsFile, "kinds", "", "kinds of your own, see docs/kinds.md; KINDS_FILE when empty")
	c.AddCommand(agent.RegisterCommand(versionText()))
	return c
}

func runWorker(cmd *cobra.Command, env *WorkerEnv, _ []string) error {
	log := program.NewLog(os.Stderr, slog.LevelInfo)
	ctx := cmd.Context()
	file, err := own.OpenFile(&env.Env, true, log)
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	w, closer, err := env.openWorker(ctx, file, log)
	if err != nil {
		return err
	}
	defer closer.Close()
	w.ForceStop = program.SecondSignal()
	stopHTTP, err := program.ServeWorker(ctx, env.HTTPAddr, w)
	if err != nil {
		return err
	}
	defer stopHTTP()
	stopRepair, err := env.startRepair(ctx, w, log)
	if err != nil {
		return err
	}
	defer stopRepair()
	program.GiveBackStartMemory() // an idle worker may have no other occasion for hours
	log.InfoContext(ctx, "worker started", "subscription", env.Subscription, "priority_subscription", env.Priority, "dead_letter_topic", env.DeadTopic, "slots", env.Slots, "processor", env.Kind, "kinds", each(file.Set().Kinds, func(k *kinds.Kind) jobs.Kind { return k.Name }), "pdf_engine", env.Engine, "storage", env.Type)
	err = w.Run(ctx)
	log.InfoContext(context.WithoutCancel(ctx), "worker stopped", "err", err)
	return program.WorkerEnded(err)
}

// openWorker wires a worker as the environment says, with the kinds of a file. Only the local storage
// directory is touched; services are reached for when the worker runs.
func (e *WorkerEnv) openWorker(ctx context.Context, file *own.File, log *slog.Logger) (*worker.Worker, io.Closer, error) {
	if n := command.Sweep(); n > 0 {
		log.WarnContext(ctx, "killed processes left over from an earlier worker", "processes", n)
	}
	children := new(processor.Children)
	pdf, err := e.openEngine(ctx, children)
	if err != nil {
		return nil, nil, err
	}
	store, err := e.openStorage(ctx)
	if err != nil {
		return nil, nil, err
	}
	if local, ok := store.(*storage.Local); ok {
		if n, err := local.SweepTemp(ctx); err != nil || n > 0 {
			log.InfoContext(ctx, "swept unfinished files of killed workers", "files", n, "err", err)
		}
	}
	if err := settings.Writable(e.WorkDir); err != nil {
		return nil, nil, program.Exit(program.Usage, fmt.Errorf("WORK_DIR: %w", err))
	}
	if n, err := processor.Sweep(e.WorkDir); err != nil || n > 0 {
		log.InfoContext(ctx, "swept copies of inputs of killed workers", "files", n, "err", err)
	}
	work := &own.Work{File: file, GPUs: e.GPUEnv, Store: store, WorkDir: e.WorkDir, Checkpoint: e.Checkpoint.D(), Log: log}
	pools, err := work.Pools(e.Slots)
	if err != nil {
		return nil, nil, program.Exit(program.Usage, err)
	}
	slots, gpus := 0, []int(nil)
	for _, p := range pools {
		slots += p.Slots
		gpus = append(gpus, p.GPUs...)
	}
	st, redis := e.openStatus(slots*2 + 4)
	st.MaxCrashes, st.Worker = e.MaxCrashes, settings.WorkerName(e.Name)
	metrics := worker.NewMetrics(versionText())
	source, queues, err := e.openSource(ctx, log, metrics)
	if err != nil {
		return nil, nil, err
	}
	closing := append(queues, redis, children)
	w := &worker.Worker{
		Source: source, Status: st, Claims: st, Log: log, Metrics: metrics,
		Checks: map[string]func(context.Context) error{"redis": readyFor(st), "storage": store.Check},
		Pools:  pools, LeaseTTL: e.LeaseTTL.D(), ExtendEvery: e.ExtendEvery.D(), Drain: max(e.Drain.D(), 1), // 0 would mean the default

		JobTimeout: e.JobTimeout.D(), StallTimeout: e.StallTimeout.D(), SettleTimeout: e.SettleTimeout.D(),
		StartTimeout: max(e.StartTimeout.D(), 1), KindTimeout: max(e.KindTimeout.D(), 1), ProgressInterval: e.ProgressInterval.D(),
		IdleExit: e.IdleExit.D(), MaxRuntime: e.MaxRuntime.D(),
	}
	if e.DeadTopic != "" {
		dead, err := e.openDeadLetters(ctx)
		if err != nil {
			return nil, nil, err
		}
		// A worker that cannot keep dead letters takes no jobs: they would pile up in
		// its slots.
		w.DeadLetters, w.Checks["dead letters"] = dead, dead.Check
		closing = append(closing, dead)
	}
	host, _ := os.Hostname() // shown to people; empty if it is not to be had
	member := st.Member(status.Worker{Host: host, PID: os.Getpid(), Version: versionText(), Slots: slots, GPUs: gpus})
	w.Registry = member
	builtIn := e.handlers(pdf, store, log)
	err = work.Start(ctx, metrics.Registry, func(more map[jobs.Kind]worker.Handler) {
		all := maps.Clone(builtIn)
		maps.Copy(all, more)
		w.Replace(all)
		member.SetKinds(slices.Sorted(maps.Keys(all)))
	})
	if err != nil {
		return nil, nil, program.Exit(program.Usage, fmt.Errorf("WORK_DIR: %w", err))
	}
	w.Init()
	return w, append(closing, work), nil
}

// readyFor returns the check of Redis, which asks as well whether the worker shall
// take jobs.
func readyFor(st *status.Store) func(context.Context) error {
	return func(ctx context.Context) error {
		draining, err := st.Ready(ctx)
		if err == nil && draining {
			err = worker.ErrDraining
		}
		return err
	}
}

// openSource returns where jobs come from, and what to close afterwards.
func (e *WorkerEnv) openSource(ctx context.Context, log *slog.Logger, metrics *worker.Metrics) (worker.Source, closers, error) {
	names := e.names() // checked when the environment was read
	priorityLeases := pubsub.PriorityLeases(metrics.Registry)
	normal, err := pubsub.OpenSource(ctx, names.subscription.full, e.rules(jobs.Kind(e.Kind)), log, e.connection()...)
	if err != nil || e.Priority == "" {
		return normal, closers{normal}, err
	}
	both := &pubsub.PrioritySource{Priority: normal.Beside(names.priority.full), Normal: normal, Share: e.PriorityShare, Leases: priorityLeases}
	return both, closers{both, normal}, nil
}

func (e *PubSubEnv) openDeadLetters(ctx context.Context) (*pubsub.DeadLetterTopic, error) {
	return pubsub.OpenDeadLetterTopic(ctx, e.names().dead.full, e.connection()...) // checked when the environment was read
}

// closers closes several things in order.
type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for _, one := range c {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

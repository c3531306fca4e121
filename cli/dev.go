package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

func devCommand() *cobra.Command {
	var addr, redisAddr, httpAddr string
	var asked asked
	var kind string
	var slots int
	var asJSON, withRelay, withGrid bool
	cmd := &cobra.Command{
		Use:   "dev [FILE…]",
		Short: "Run a whole fleet in this process, with nothing installed",
		Long: "Run a whole fleet in this process: Pub/Sub emulator, Redis, workers, storage (LOCAL_STORAGE_PATH, or else\n" +
			"./dev_storage, so that no other fleet finds its results).\n" +
			"With files: process them, print a table of results and the end of the logs of programs that have failed, exit 0\n" +
			"only if all succeeded.\n" +
			"Without: stay up and print the addresses. With --relay: a relay and an orchestrator that shows what arrives, instead.\n" +
			"With --grid: a leader of the grid with two workers.",
		Example: "  batchfleet dev *.pdf\n  batchfleet dev --relay --kinds examples/relay/kinds.toml\n  batchfleet dev --kinds kinds.toml --kind thumbnail --param dpi=120 *.pdf\n  batchfleet dev",
		RunE: func(cmd *cobra.Command, files []string) error {
			if slots < 1 || slots > 256 {
				return program.Exit(program.Usage, fmt.Errorf("--slots is %d: must be from 1 to 256", slots))
			}
			if withGrid {
				if len(files) > 0 || withRelay {
					return program.Exit(program.Usage, errors.New("--grid takes no files, and no --relay: its jobs come over TCP"))
				}
				return program.Coded(cmd.Context(), runDevGrid(cmd.Context(), asked.kindsFile, cmd.OutOrStdout()))
			}
			if withRelay {
				if len(files) > 0 {
					return program.Exit(program.Usage, errors.New("--relay takes no files: its tasks come over REST"))
				}
				return program.Coded(cmd.Context(), runDevRelay(cmd.Context(), cmp.Or(asked.kindsFile, os.Getenv("KINDS_FILE")), slots, cmd.OutOrStdout()))
			}
			chosen, err := chooseKinds(asked.kindsFile, kind, len(files) > 0)
			if err != nil {
				return program.Exit(program.Usage, err)
			}
			job, err := chosen.job(cmd.Context(), &asked, files)
			if err != nil {
				return err
			}
			if note := chosen.note(); note != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "batchfleet:", note)
			}
			level := slog.LevelInfo
			if len(files) > 0 {
				// No other process needs to find this fleet, and its log would tear the bars.
				addr, redisAddr, httpAddr, level = "127.0.0.1:0", "127.0.0.1:0", "", slog.LevelWarn
				// Whoever interrupts it will see no outcome of what still runs: its Redis goes with it.
				if err := os.Setenv("DRAIN_TIMEOUT", "0s"); err != nil {
					return err
				}
			}
			if err := checkAddresses(addr, redisAddr, httpAddr); err != nil {
				return err
			}
			running, ctx := errgroup.WithContext(cmd.Context())
			f, err := startFleet(ctx, running, addr, redisAddr, httpAddr, slots, chosen.leftOut, program.NewLog(os.Stderr, level))
			if err != nil {
				return program.Coded(cmd.Context(), err)
			}
			if len(files) == 0 {
				fmt.Fprint(cmd.OutOrStdout(), f.welcome(chosen.kind))
				<-ctx.Done()
				return f.stop()
			}
			err = f.process(ctx, files, job, cmd.OutOrStdout(), asJSON)
			return program.Coded(cmd.Context(), errors.Join(err, f.stop()))
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:8085", "without files: where the emulator listens; another port is taken if this one is in use")
	cmd.Flags().StringVar(&redisAddr, "redis-addr", "127.0.0.1:6379", "without files: where Redis listens; another port is taken if this one is in use")
	cmd.Flags().StringVar(&httpAddr, "http-addr", "127.0.0.1:8080", "without files: where the Job API listens, on loopback only; another port is taken if this one is in use; none when empty")
	cmd.Flags().StringVar(&asked.kindsFile, "kinds", "", "kinds of your own, see docs/kinds.md; KINDS_FILE when empty")
	cmd.Flags().StringVar(&kind, "kind", "", "what to do with the files: pdf, mock or a kind of your own; the only one of --kinds, or PROCESSOR, when empty")
	asked.paramFlags(cmd.Flags())
	cmd.Flags().IntVar(&slots, "slots", runtime.NumCPU(), "how many jobs run at once, beside those of kinds with slots or gpus of their own")
	cmd.Flags().BoolVar(&withRelay, "relay", false, "a relay with the kinds of --kinds, and an orchestrator, in ./dev_relay")
	cmd.Flags().BoolVar(&withGrid, "grid", false, "a leader of the grid with two workers, which run the kinds of --kinds, too, in ./dev_grid, and a client that shows that they work")
	jsonFlag(cmd, &asJSON)
	complete(cmd, "kind", words("pdf", "mock"))
	return cmd
}

// fleet is a whole fleet in one process.
type fleet struct {
	env   WorkerEnv
	kinds *own.File
	redis *miniredis.Miniredis
	addr  string // of the emulator
	http  string // address of the Job API; empty for none

	halt    context.CancelFunc // of the worker
	running *errgroup.Group    // ends its context if a part fails
}

// startFleet starts all parts, without some of the kinds. The caller must call stop.
func startFleet(ctx context.Context, running *errgroup.Group, addr, redisAddr, httpAddr string, slots int, without []jobs.Kind, log *slog.Logger) (*fleet, error) {
	f := &fleet{redis: miniredis.NewMiniRedis(), running: running}
	f.env.LeaveOut(without)
	f.redis.ClockTTL(true)
	if err := startNear("redis", redisAddr, f.redis.StartAddr); err != nil {
		return nil, err
	}
	l, err := listenNear(ctx, "emulator", addr)
	if err != nil {
		return nil, err
	}
	f.addr = l.Addr().String()
	if err := f.configure(slots); err != nil {
		return nil, err
	}
	if f.kinds, err = own.OpenFile(&f.env.Env, true, log); err != nil {
		return nil, program.Exit(program.Usage, err)
	}
	srv := emulator.New(emulator.Config{Log: log})
	topics, subscriptions := f.env.queues()
	if err := createQueues(srv, f.env.Project, topics, subscriptions, f.env.LeaseTTL.D()); err != nil {
		return nil, program.Exit(program.Usage, err)
	}
	// The parts outlive the signal: jobs drain first.
	serving, end := context.WithCancel(context.WithoutCancel(ctx)) // the emulator goes last
	working, halt := context.WithCancel(serving)
	f.halt = halt
	running.Go(func() error { return srv.Serve(serving, l) })
	w, closer, err := f.env.openWorker(working, f.kinds, log)
	if err != nil {
		end()
		return nil, err
	}
	w.ForceStop = program.SecondSignal()
	stopHTTP, err := program.ServeWorker(working, f.env.HTTPAddr, w)
	if err == nil {
		err = f.serveJobs(working, httpAddr, w.Metrics.Registry, log)
	}
	if err != nil {
		end()
		return nil, err
	}
	running.Go(func() error {
		defer end()
		defer closer.Close()
		defer stopHTTP()
		return w.Run(working)
	})
	return f, nil
}

// devStorage is where dev keeps inputs and results if no setting says where. Its Redis is gone when it
// ends: a fleet with the same storage would take what is there for jobs that Redis has lost.
const devStorage = "./dev_storage"

// configure reads the environment as a worker would, after pointing it at the
// parts in this process.
func (f *fleet) configure(slots int) error {
	for name, value := range map[string]string{
		"REDIS_HOST": f.redis.Host(), "REDIS_PORT": f.redis.Port(), "REDIS_DB": "0",
		"REDIS_USERNAME": "", "REDIS_PASSWORD": "", "REDIS_TLS": "false", "REDIS_URL": "",
		"PUBSUB_EMULATOR_HOST": f.addr, "GCP_PROJECT_ID": cmp.Or(os.Getenv("GCP_PROJECT_ID"), "local-dev"),
		"LOCAL_STORAGE_PATH": cmp.Or(os.Getenv("LOCAL_STORAGE_PATH"), devStorage),
		"WORKER_SLOTS":       strconv.Itoa(slots),
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return settings.Read(&f.env)
}

// process submits a job for each of the files and waits for them.
func (f *fleet) process(ctx context.Context, files []string, job jobapi.Submission, out io.Writer, asJSON bool) error {
	s, closer, err := f.env.openSubmitter(ctx)
	if err != nil {
		return err
	}
	defer closer.Close()
	s.fleet.KindsFile = f.kinds.Set
	inputs, err := (&asked{}).inputs(files)
	if err != nil {
		return err
	}
	sent, err := s.all(ctx, inputs, job)
	if err != nil {
		return flagged(err)
	}
	ended, err := f.env.waitFor(ctx, s.fleet.Status, sent, jobs.Kind(job.Kind), out, asJSON)
	if asJSON {
		return err
	}
	return errors.Join(err, printLogEnds(context.WithoutCancel(ctx), out, s.fleet, ended))
}

// stop lets jobs in hand drain, stops all parts and returns what went wrong first.
func (f *fleet) stop() error {
	defer f.redis.Close()
	f.halt()
	return f.running.Wait()
}

// listenNear listens for a part of the fleet at addr, or at a free port if addr is in use.
func listenNear(ctx context.Context, what, addr string) (l net.Listener, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = startNear(what, addr, func(addr string) error {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		return err
	})
	return l, err
}

// startNear starts a part of the fleet at addr, or at a free port if addr is in use.
func startNear(what, addr string, start func(addr string) error) error {
	err := start(addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		host, _, _ := net.SplitHostPort(addr)
		err = start(net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("start %s: %w", what, err))
	}
	return nil
}

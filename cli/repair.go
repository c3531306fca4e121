package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/metrics"
	"github.com/batchfleet/batchfleet/operations/repair"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/worker"
)

// startRepair has a worker look now and then for jobs that Redis has forgotten, until
// the returned function is called.
func (e *WorkerEnv) startRepair(ctx context.Context, w *worker.Worker, log *slog.Logger) (stop func(), err error) {
	if e.Repair == 0 {
		return func() {}, nil
	}
	store, err := e.openStorage(ctx)
	if err != nil {
		return nil, err
	}
	st, redis := e.openStatus(2)
	r, closer := &repair.Repair{Status: st, Store: store, Log: log}, closers{redis}
	if publisher, err := e.openPublisher(ctx); err == nil {
		r.Publish, closer = publisher.Publish, closers{publisher, redis}
	} else {
		log.WarnContext(ctx, "repair cannot publish, it only records stored results", "repair_interval", e.Repair.D(), "err", err)
	}
	r.Status.Worker, r.Dir = settings.WorkerName(e.Name), e.WorkDir
	repaired := metrics.In(w.Metrics.Registry, "batchfleet_").Counters("jobs_repaired_total",
		"Jobs that Redis had forgotten, by what was done: recorded as completed, or published again.", "done")
	r.Found = func(f redisdb.Finding) {
		switch {
		case f.Done == "":
		case f.Kind == status.Waiting:
			repaired.WithLabelValues("published").Inc()
		default:
			repaired.WithLabelValues("recorded").Inc()
		}
	}
	ctx, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, e.Repair.D()) })
	return func() {
		end()
		running.Wait()
		_ = closer.Close() // nothing was left to be sent
	}, nil
}

func fleetFsckCommand() *cobra.Command {
	var repair, asJSON bool
	c := &cobra.Command{
		Use:   "fsck",
		Short: "Find the jobs that Redis has forgotten or lists wrongly, and repair them",
		Long: "Looks at all jobs of the fleet, also while workers run. With --repair, jobs whose result is stored are recorded as\n" +
			"completed, those that nobody has run for a minute are published again (harmless where their message exists), and\n" +
			"the lists are put right. Exits 0 if all is well or was repaired, and 1 if not. Workers do the same by themselves\n" +
			"every REPAIR_INTERVAL, and soon after Redis was restarted or has failed over. A gateway's jobs: gateway fsck.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var env ClientEnv
			if err := settings.Read(&env); err != nil {
				return err
			}
			return program.Coded(cmd.Context(), env.fsck(cmd.Context(), repair, asJSON, cmd.OutOrStdout()))
		},
	}
	c.Flags().BoolVar(&repair, "repair", false, "repair what is found")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

func (e *ClientEnv) fsck(ctx context.Context, mend, asJSON bool, out io.Writer) error {
	store, err := e.openStorage(ctx)
	if err != nil {
		return err
	}
	publisher, err := e.openPublisher(ctx)
	if err != nil {
		return err
	}
	st, redis := e.openStatus(0)
	defer closers{publisher, redis}.Close()
	st.Worker = "fsck"
	r := repair.Repair{Status: st, Store: store, Publish: publisher.Publish, Log: slog.New(slog.DiscardHandler)}
	report, err := r.Fsck(ctx, mend)
	printed := printAudit(out, report, nil, report, asJSON) // what was repaired counts also where it could not go on
	err = errors.Join(err, printed)
	if err == nil && report.Left > 0 {
		err = program.Exit(program.Failed, fmt.Errorf("%d findings are not repaired; %s", report.Left, advice(mend)))
	}
	return err
}

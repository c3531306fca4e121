package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

func workersCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "workers", Short: "List the workers: working, idle, draining, or silent since when", Args: cobra.NoArgs,
		RunE: withStatus(func(cmd *cobra.Command, st *status.Store, _ []string) error {
			workers, err := st.Workers(cmd.Context())
			if err != nil {
				return err
			}
			rows := each(workers, func(w status.Worker) workerRow { return workerRow{w, w.State(), w.Seen} })
			return printRows(cmd.OutOrStdout(), asJSON, rows, []any{"WORKER", "STATE", "JOBS", "SLOTS", "KINDS", "HOST", "PID", "VERSION", "STARTED"}, workerRow.cells)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	return cmd
}

// workerRow is how a worker is printed as JSON.
type workerRow struct {
	status.Worker
	State string    `json:"state"`
	Seen  time.Time `json:"seen"`
}

func (w workerRow) cells() []any {
	if w.Silent > status.SilentAfter {
		w.State = "silent since " + moment(w.Seen)
	}
	kinds := each(w.Kinds, func(k jobs.Kind) string { return string(k) })
	slices.Sort(kinds)
	return []any{w.Name, w.State, w.Jobs, w.Slots, strings.Join(kinds, ","), w.Host, w.PID, w.Version, moment(w.Started)}
}

package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/status"
)

func workersCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "workers", Short: "List the workers: working, idle, draining, or silent since when", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var env RedisEnv
			if err := settings.Read(&env); err != nil {
				return err
			}
			st, redis := env.openStatus(0)
			defer redis.Close()
			workers, err := st.Workers(cmd.Context())
			if err != nil {
				return program.Coded(cmd.Context(), err)
			}
			if asJSON {
				for _, w := range workers {
					if err := printJSON(cmd.OutOrStdout(), workerRow{w, w.State(), w.Seen}); err != nil {
						return err
					}
				}
				return nil
			}
			return printWorkers(cmd.OutOrStdout(), workers)
		},
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

func printWorkers(out io.Writer, workers []status.Worker) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(t, "WORKER\tSTATE\tJOBS\tSLOTS\tKINDS\tHOST\tPID\tVERSION\tSTARTED")
	for _, w := range workers {
		state := w.State()
		if w.Silent > status.SilentAfter {
			state = "silent since " + moment(w.Seen)
		}
		kinds := make([]string, len(w.Kinds))
		for i, k := range w.Kinds {
			kinds[i] = string(k)
		}
		slices.Sort(kinds)
		_, bad := fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%d\t%s\t%s\n", oneLine(w.Name), state, w.Jobs, w.Slots,
			oneLine(strings.Join(kinds, ",")), oneLine(w.Host), w.PID, oneLine(w.Version), moment(w.Started))
		err = errors.Join(err, bad)
	}
	return errors.Join(err, t.Flush())
}

// silence says for people how long nothing was heard of the worker of a job; nothing
// if that is as it should be.
func silence(e status.Entry) string {
	if e.Silent == 0 {
		return ""
	}
	return fmt.Sprintf("worker silent for %d s", int(e.Silent.Seconds()))
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
)

// workerScopeFlag adds --scope for workers.
func (c *connection) workerScopeFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.scope, "scope", "", "fleet (Pub/Sub workers), zpe and gateway (a gateway's agents), or grid (workers of a leader); all when empty")
	complete(cmd, "scope", words("fleet", "zpe", gatewayScope, "grid"))
}

// workersActionCommand is `workers drain` or `workers resume`.
func workersActionCommand(c *connection, action string) *cobra.Command {
	cmd := &cobra.Command{Use: action + " WORKER…", Args: cobra.MinimumNArgs(1), Example: "  batchfleet workers " + action + " worker-7"}
	did := ""
	switch action {
	case "drain":
		cmd.Short, did = "Let workers take no more jobs; those in hand go on", "takes no more jobs within 10 s, until `batchfleet workers resume`"
		cmd.Long = "Let workers, by their names or ids, take no more jobs. Those in hand go on to their end, and the workers stay up.\n" +
			"`batchfleet run drain` does it for a whole fleet."
	case "resume":
		cmd.Short, did = "Let workers that were drained take jobs again", "takes jobs again within 10 s"
	}
	cmd.RunE = c.connected(needRedis, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		for _, name := range args {
			w, err := c.worker(ctx, name)
			if err != nil {
				return err
			}
			err = c.ActOnWorker(ctx, w.Scope, w.ID, action)
			if noRoute(err) {
				return program.Exit(program.Failed, fmt.Errorf("%w; workers of scope %s may be none that can be told to %s", err, w.Scope, action))
			}
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", oneLine(w.label()), did); err != nil {
				return err
			}
		}
		return nil
	})
	c.flags(cmd)
	c.workerScopeFlag(cmd)
	cmd.ValidArgsFunction = c.completeWorkers
	return cmd
}

// worker returns the one worker with this name or id.
func (c *connection) worker(ctx context.Context, name string) (found workerRow, err error) {
	if name == "" {
		return found, program.Exit(program.Usage, errors.New("worker id is empty"))
	}
	rows, err := c.workers(ctx, io.Discard)
	if err != nil {
		return found, err
	}
	named := 0
	for _, w := range rows {
		if w.ID == name {
			return w, nil
		}
		if w.Name == name && !w.silent() { // one that was started again has the name of its last process
			found = w
			named++
		}
	}
	switch named {
	case 0:
		return found, program.Exit(program.Failed, fmt.Errorf("worker %.60q: no live worker has this name or id; `batchfleet workers --json%s` lists them with their ids", name, c.given()))
	case 1:
		return found, nil
	}
	return found, program.Exit(program.Usage, fmt.Errorf("worker %.60q: %d workers have this name: give the id of one, which `batchfleet workers --json%s` shows", name, named, c.given()))
}

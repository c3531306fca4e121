package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/operations/deadletter"
	"github.com/batchfleet/batchfleet/pubsub"
)

// deadRow is how dead letters of one name are printed as JSON.
type deadRow struct {
	Name         string    `json:"name"` // what to call it in other dlq commands
	JobID        jobs.ID   `json:"job_id,omitempty"`
	Kind         jobs.Kind `json:"kind,omitempty"`
	Cause        string    `json:"cause"`
	Reason       string    `json:"reason"`
	FailedAt     time.Time `json:"failed_at"`
	Attempts     int       `json:"attempts"`
	Letters      int       `json:"letters"`
	Subscription string    `json:"subscription,omitempty"`
	MessageID    string    `json:"message_id,omitempty"`
	Bytes        int       `json:"bytes"` // of the message's data
}

func newDeadRow(d deadletter.Item) deadRow {
	l := d.Last()
	return deadRow{
		Name: d.Name(), JobID: l.Job.ID, Kind: l.Job.Kind, Cause: l.Cause, Reason: l.Reason, FailedAt: l.At.UTC(), Attempts: l.Attempt,
		Letters: len(d), Subscription: l.Queue, MessageID: l.MessageID, Bytes: max(l.Cut, len(l.Data)),
	}
}

func dlqListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List dead letters, a row a job, newest first", Args: cobra.NoArgs}
	count := cmd.Flags().Int("count", 100, "how many jobs, at most")
	oldest := cmd.Flags().Bool("oldest", false, "oldest first")
	asJSON := cmd.Flags().Bool("json", false, "print JSON, one object a line")
	cmd.RunE = withDeadLetters(waitFlag(cmd), func(_ context.Context, d *dlqSession, _ []string) error {
		if *count < 1 || *count > pubsub.MaxDeadLetters {
			return program.Exit(program.Usage, fmt.Errorf("--count is %d: must be from 1 to %d", *count, pubsub.MaxDeadLetters))
		}
		if *oldest {
			slices.Reverse(d.all)
		}
		shown := d.all[:min(*count, len(d.all))]
		err := printRows(d.out, *asJSON, each(shown, newDeadRow), []any{"TIME", "JOB", "KIND", "ATTEMPTS", "REASON"}, func(r deadRow) []any {
			return []any{r.FailedAt.Format(time.RFC3339), r.Name, r.Kind, r.Attempts, r.Reason}
		})
		if err != nil {
			return err
		}
		if more := len(d.all) - len(shown); more > 0 {
			fmt.Fprintf(d.err, "%d more: raise --count\n", more)
		}
		if len(d.all) == 0 {
			fmt.Fprintln(d.err, "no dead letters, or somebody else holds them just now")
		}
		return nil
	})
	return cmd
}

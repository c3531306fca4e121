package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/operations/deadletter"
	"github.com/batchfleet/batchfleet/pubsub"
)

// deadRow is how dead letters of one name are printed as JSON.
type deadRow struct {
	Name         string    `json:"name"` // what to call it in other dlq commands
	JobID        jobs.ID   `json:"jobId,omitempty"`
	Kind         jobs.Kind `json:"kind,omitempty"`
	Cause        string    `json:"cause"`
	Reason       string    `json:"reason"`
	FailedAt     time.Time `json:"failedAt"`
	Attempts     int       `json:"attempts"`
	Letters      int       `json:"letters"`
	Subscription string    `json:"subscription,omitempty"`
	MessageID    string    `json:"messageId,omitempty"`
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
	s := &dlqScope{}
	cmd := &cobra.Command{
		Use: "list", Short: "List dead letters, a row a job, newest first", Args: cobra.NoArgs,
		Example: "  batchfleet dlq list --count 10\n  batchfleet dlq list --scope zpe",
	}
	s.flags(cmd)
	count := cmd.Flags().Int("count", 100, "how many jobs, at most")
	oldest := cmd.Flags().Bool("oldest", false, "oldest first; only for dead letters of Pub/Sub")
	var asJSON bool
	jsonFlag(cmd, &asJSON)
	print := func(cmd *cobra.Command, rows []deadRow, more int, none string) error {
		now := time.Now()
		err := printRows(cmd.OutOrStdout(), asJSON, rows, []any{"JOB", "KIND", "AGE", "ATTEMPTS", "REASON"}, func(r deadRow) []any {
			return []any{r.Name, r.Kind, age(now, jobapi.At(r.FailedAt)), r.Attempts, r.Reason}
		})
		if err != nil {
			return err
		}
		if more > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%d more: raise --count\n", more)
		}
		if len(rows) == 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), none)
		}
		return nil
	}
	fleet := withDeadLetters(waitFlag(cmd), func(_ context.Context, d *dlqSession, _ []string) error {
		if *oldest {
			slices.Reverse(d.all)
		}
		shown := d.all[:min(*count, len(d.all))]
		return print(cmd, each(shown, newDeadRow), len(d.all)-len(shown), "no dead letters, or somebody else holds them just now")
	})
	inScope := s.ofScope(fleet, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		if *oldest {
			return program.Exit(program.Usage, errors.New("--oldest is for dead letters of Pub/Sub: a gateway's are listed newest first"))
		}
		found, _, more, err := s.deadLetters(ctx, nil, *count)
		if err != nil {
			return err
		}
		return print(cmd, each(found, deadRowOf), more, "no dead letters")
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *count < 1 || *count > pubsub.MaxDeadLetters {
			return program.Exit(program.Usage, fmt.Errorf("--count is %d: must be from 1 to %d", *count, pubsub.MaxDeadLetters))
		}
		return inScope(cmd, args)
	}
	return cmd
}

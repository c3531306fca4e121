package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/operations/deadletter"
	"github.com/batchfleet/batchfleet/pubsub"
)

func dlqCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look at dead letters: jobs that failed and messages that name no job; queue them again or drop them",
		Long: "Look at dead letters: the messages of jobs that failed, and messages that name no job (called message:ID); with\n" +
			"--scope gateway or zpe, or --api, the jobs that a gateway has given up.\n\n" +
			"The fleet's are read from DEAD_LETTER_SUBSCRIPTION, by default the one named as DEAD_LETTER_TOPIC. While one dlq\n" +
			"command holds dead letters no other sees them; one that is killed gives them back after 30 seconds.",
	}
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(dlqListCommand(), dlqShowCommand(), dlqRedriveCommand(), dlqPurgeCommand())
	return cmd
}

// dlqSession holds the dead letters that a dlq command works on.
type dlqSession struct {
	env    ClientEnv
	reader *pubsub.DeadLetterReader
	all    []deadletter.Item // newest first
	out    io.Writer
	err    io.Writer
}

// withDeadLetters makes the body of a dlq command. It leases all dead letters, calls
// do, and hands back those that do has not dropped, even when do fails.
func withDeadLetters(wait *time.Duration, do func(ctx context.Context, d *dlqSession, args []string) error) func(*cobra.Command, []string) error {
	return settings.With(func(cmd *cobra.Command, env *ClientEnv, args []string) error {
		d := &dlqSession{env: *env, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
		if *wait < 100*time.Millisecond || *wait > time.Minute {
			return program.Exit(program.Usage, fmt.Errorf("--wait is %s: must be from 100ms to 1m", *wait))
		}
		var mistakes []error
		for _, name := range args {
			mistakes = append(mistakes, pubsub.CheckDeadLetterName(name))
		}
		if err := errors.Join(mistakes...); err != nil {
			return program.Exit(program.Usage, err)
		}
		ctx := cmd.Context()
		return d.open(ctx, *wait, func() error { return do(ctx, d, args) })
	})
}

func (d *dlqSession) open(ctx context.Context, wait time.Duration, do func() error) (err error) {
	name := d.env.names().deadSubscription
	if name == (queueName{}) {
		name.err = errors.New("DEAD_LETTER_TOPIC is not set, nor DEAD_LETTER_SUBSCRIPTION: there are no dead letters to look at")
	}
	if name.err != nil {
		return program.Exit(program.Usage, name.err)
	}
	d.reader, err = pubsub.OpenDeadLetterReader(ctx, name.full, d.env.rules(""), d.env.connection()...)
	if err != nil {
		return err
	}
	defer d.reader.Close()
	warn := func(format string, args ...any) { fmt.Fprintf(d.err, format+"\n", args...) }
	defer deadletter.HandBack(ctx, d.reader, warn)
	return deadletter.Keeping(ctx, d.reader, func() error {
		if d.all, err = deadletter.Collect(ctx, d.reader, wait, warn); err != nil {
			return d.env.refused(err, "subscription", "DEAD_LETTER_SUBSCRIPTION")
		}
		return do()
	})
}

// lacking is the error for names that no dead letter has.
func lacking(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return program.Exit(program.Failed, fmt.Errorf("no dead letter of %s (or somebody else holds it just now)", strings.Join(missing, ", ")))
}

func waitFlag(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("wait", 3*time.Second, "for how long to wait for a further dead letter before taking it that this is all")
}

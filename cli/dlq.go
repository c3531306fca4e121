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
		Long: "Look at dead letters: the messages of jobs that failed, and messages that name no job (called message:ID).\n" +
			"They are read from DEAD_LETTER_SUBSCRIPTION, by default the one named as DEAD_LETTER_TOPIC. While one dlq\n" +
			"command holds letters no other sees them; one that is killed gives them back after 30 seconds.",
	}
	// Without this a misspelt command would print help and succeed.
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return program.Exit(program.Usage, fmt.Errorf("unknown command %q: want list, show, redrive or purge", args[0]))
		}
		return cmd.Help()
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.AddCommand(dlqListCommand(), dlqShowCommand(), dlqRedriveCommand(), dlqPurgeCommand())
	return cmd
}

// desk is where letters lie while a command looks at them.
type desk struct {
	env ClientEnv
	box *pubsub.DeadLetterReader
	all []deadletter.Item // newest first
	out io.Writer
	err io.Writer
}

// atDesk makes the body of a dlq command: it takes all the letters, lets do look
// at them, and hands back what do has not dropped, whatever happens.
func atDesk(wait *time.Duration, do func(ctx context.Context, d *desk, args []string) error) func(*cobra.Command, []string) error {
	return settings.With(func(cmd *cobra.Command, env *ClientEnv, args []string) error {
		d := &desk{env: *env, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
		if *wait < 100*time.Millisecond || *wait > time.Minute {
			return program.Exit(program.Usage, fmt.Errorf("--wait is %s: must be from 100ms to 1m", *wait))
		}
		var mistakes []error
		for _, name := range args {
			_, err := pubsub.ParseDeadLetterName(name)
			mistakes = append(mistakes, err)
		}
		if err := errors.Join(mistakes...); err != nil {
			return program.Exit(program.Usage, err)
		}
		ctx := cmd.Context()
		return d.open(ctx, *wait, func() error { return do(ctx, d, args) })
	})
}

func (d *desk) open(ctx context.Context, wait time.Duration, do func() error) (err error) {
	name := d.env.names().letters
	if name == (queueName{}) {
		name.err = errors.New("DEAD_LETTER_TOPIC is not set, nor DEAD_LETTER_SUBSCRIPTION: there are no dead letters to look at")
	}
	if name.err != nil {
		return program.Exit(program.Usage, name.err)
	}
	d.box, err = pubsub.OpenDeadLetterReader(ctx, name.full, d.env.rules(""), d.env.connection()...)
	if err != nil {
		return err
	}
	defer d.box.Close()
	defer func() {
		if back := deadletter.HandBack(ctx, d.box); back != nil {
			fmt.Fprintf(d.err, "the letters come back within a minute, because they could not be handed back: %v\n", back)
		}
	}()
	return deadletter.Keeping(ctx, d.box, func() error {
		letters, full, err := d.box.Collect(ctx, wait)
		if err != nil {
			return err
		}
		if full {
			fmt.Fprintf(d.err, "there may be more: only %d letters are looked at at once\n", len(letters))
		}
		d.all = deadletter.Group(letters)
		return do()
	})
}

// lacking is the error for names that no letter has.
func lacking(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return program.Exit(program.Failed, fmt.Errorf("no dead letter of %s (or somebody else holds it just now)", strings.Join(missing, ", ")))
}

func waitFlag(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("wait", 3*time.Second, "for how long to wait for a further letter before taking it that this is all")
}

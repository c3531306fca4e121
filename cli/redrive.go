package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/operations/deadletter"
)

// redriveFlags are the flags of batchfleet dlq redrive.
type redriveFlags struct {
	dry              bool
	count, stopAfter int
	rate             float64
	reason           string
}

func dlqRedriveCommand() *cobra.Command {
	var f redriveFlags
	s := &dlqScope{}
	cmd := &cobra.Command{
		Use: "redrive [ID…]", SuggestFor: []string{"retry", "requeue", "replay"},
		Short: "Queue dead jobs again: those named, or all",
		Long: "Queue dead jobs again, oldest first: those named, or all. Each keeps its id; its status becomes queued, its\n" +
			"message is published to PUBSUB_TOPIC as it was, and then its dead letters are dropped: whatever fails or is\n" +
			"killed in between, run it again. A job that has succeeded since is only dropped; one that runs or was canceled\n" +
			"is left. Messages that name no job are queued again only when they are named.",
		Example: `  batchfleet dlq redrive --reason 'not found' --dry-run
  batchfleet dlq redrive --reason 'not found' --count 10
  batchfleet dlq redrive --scope zpe`,
	}
	flags := cmd.Flags()
	s.flags(cmd)
	flags.BoolVar(&f.dry, "dry-run", false, "only say what would be queued")
	flags.IntVar(&f.count, "count", 0, "how many jobs, at most; 0 for all")
	flags.Float64Var(&f.rate, "rate", 10, "jobs a second, at most")
	flags.StringVar(&f.reason, "reason", "", "only those whose reason contains this")
	flags.IntVar(&f.stopAfter, "stop-after", 3, "stop once so many of them have failed again with the same error as before; 0 for never; only for dead letters of Pub/Sub")
	run := withDeadLetters(waitFlag(cmd), func(ctx context.Context, d *dlqSession, args []string) error {
		st, redis := d.env.openStatus(0)
		defer redis.Close()
		pub, err := d.env.openPublisher(ctx)
		if err != nil {
			return err
		}
		defer pub.Close()
		r := &deadletter.Redrive{
			Reader: d.reader, Status: st, Publish: pub, Dry: f.dry, Count: f.count, Rate: f.rate, Reason: f.reason, StopAfter: f.stopAfter,
			Did: func(one deadletter.Item, what string) error {
				_, err := fmt.Fprintf(d.out, "%s  %s\n", oneLine(one.Name()), what)
				return err
			},
		}
		return d.redrive(ctx, r, args)
	})
	inScope := s.ofScope(run, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		if flags.Changed("stop-after") {
			return program.Exit(program.Usage, errors.New("--stop-after is for dead letters of Pub/Sub: for a gateway's give --count"))
		}
		return s.redriveGateway(ctx, cmd, args, f)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case f.count < 0:
			return program.Exit(program.Usage, fmt.Errorf("--count is %d: must be 0 or more", f.count))
		case !(f.rate >= 0.01 && f.rate <= 1000):
			return program.Exit(program.Usage, fmt.Errorf("--rate is %g: must be from 0.01 to 1000", f.rate))
		case f.stopAfter < 0:
			return program.Exit(program.Usage, fmt.Errorf("--stop-after is %d: must be 0 or more", f.stopAfter))
		}
		return inScope(cmd, args)
	}
	return cmd
}

// redrive redrives the jobs with the given names, or all.
func (d *dlqSession) redrive(ctx context.Context, r *deadletter.Redrive, names []string) error {
	chosen, missing, err := r.Choose(ctx, d.all, names)
	if err != nil {
		return err
	}
	if len(chosen) == 0 && len(missing) == 0 {
		fmt.Fprintln(d.err, "no dead letters to redrive, or somebody else holds them just now")
	}
	err = r.Run(ctx, chosen)
	if _, same := errors.AsType[*deadletter.SameError](err); same {
		return program.Exit(program.Failed, err)
	}
	if err != nil {
		return err
	}
	if err := lacking(missing); err != nil {
		return err
	}
	if r.Left > 0 {
		return program.Exit(program.Failed, fmt.Errorf("%d of %d were not redriven", r.Left, len(chosen)))
	}
	return nil
}

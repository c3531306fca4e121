package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/operations/deadletter"
)

func dlqRedriveCommand() *cobra.Command {
	var r deadletter.Redrive
	cmd := &cobra.Command{
		Use:   "redrive [ID…]",
		Short: "Queue dead jobs again: those named, or all",
		Long: "Queue dead jobs again, oldest first: those named, or all. Each keeps its id; its status becomes queued, its\n" +
			"message is published to PUBSUB_TOPIC as it was, and then its dead letters are dropped: whatever fails or is\n" +
			"killed in between, run it again. A job that has succeeded since is only dropped; one that runs or was canceled\n" +
			"is left. Messages that name no job are queued again only when they are named.",
	}
	f := cmd.Flags()
	f.BoolVar(&r.Dry, "dry-run", false, "only say what would be queued")
	f.IntVar(&r.Count, "count", 0, "how many jobs, at most; 0 for all")
	f.Float64Var(&r.Rate, "rate", 10, "jobs a second, at most")
	f.StringVar(&r.Reason, "reason", "", "only those whose reason contains this")
	f.IntVar(&r.StopAfter, "stop-after", 3, "stop once so many of them have failed again with the same error as before; 0 for never")
	run := withDeadLetters(waitFlag(cmd), func(ctx context.Context, d *dlqSession, args []string) error {
		st, redis := d.env.openStatus(0)
		defer redis.Close()
		pub, err := d.env.openPublisher(ctx)
		if err != nil {
			return err
		}
		defer pub.Close()
		r.Reader, r.Status, r.Publish = d.reader, st, pub
		r.Did = func(one deadletter.Item, what string) error {
			_, err := fmt.Fprintf(d.out, "%s  %s\n", oneLine(one.Name()), what)
			return err
		}
		return d.redrive(ctx, &r, args)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case r.Count < 0:
			return program.Exit(program.Usage, fmt.Errorf("--count is %d: must be 0 or more", r.Count))
		case !(r.Rate >= 0.01 && r.Rate <= 1000):
			return program.Exit(program.Usage, fmt.Errorf("--rate is %g: must be from 0.01 to 1000", r.Rate))
		case r.StopAfter < 0:
			return program.Exit(program.Usage, fmt.Errorf("--stop-after is %d: must be 0 or more", r.StopAfter))
		}
		return run(cmd, args)
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

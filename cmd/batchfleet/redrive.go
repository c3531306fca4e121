package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cmd/cli"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/worker"
)

// redrive queues dead jobs anew, one after the other.
type redrive struct {
	*desk
	status  *status.Store
	publish *worker.Publisher

	dry       bool
	count     int // 0 for all
	rate      float64
	reason    string // a part of it; empty for any
	stopAfter int    // 0 for never

	sent   map[jobs.ID]string // those not known to have ended, and why they had failed
	same   int                // those that have failed again for that reason
	looked time.Time
	kept   int // letters' names that could not be redriven
}

func dlqRedriveCommand() *cobra.Command {
	var r redrive
	cmd := &cobra.Command{
		Use:   "redrive [ID…]",
		Short: "Queue dead jobs again: those named, or all",
		Long: "Queue dead jobs again, oldest first: those named, or all. Each keeps its id; its status becomes queued, its\n" +
			"message is published to PUBSUB_TOPIC as it was, and then its dead letters are dropped: whatever fails or is\n" +
			"killed in between, run it again. A job that has succeeded since is only dropped; one that runs or was canceled\n" +
			"is left. Messages that name no job are queued again only when they are named.",
	}
	f := cmd.Flags()
	f.BoolVar(&r.dry, "dry-run", false, "only say what would be queued")
	f.IntVar(&r.count, "count", 0, "how many jobs, at most; 0 for all")
	f.Float64Var(&r.rate, "rate", 10, "jobs a second, at most")
	f.StringVar(&r.reason, "reason", "", "only those whose reason contains this")
	f.IntVar(&r.stopAfter, "stop-after", 3, "stop once so many of them have failed again with the same error as before; 0 for never")
	run := atDesk(waitFlag(cmd), func(ctx context.Context, d *desk, args []string) error {
		st, redis := d.env.openStatus(0)
		defer redis.Close()
		pub, err := d.env.openPublisher(ctx)
		if err != nil {
			return err
		}
		defer pub.Close()
		r.desk, r.status, r.publish, r.sent = d, st, pub, map[jobs.ID]string{}
		return r.run(ctx, args)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case r.count < 0:
			return cli.Exit(cli.Usage, fmt.Errorf("--count is %d: must be 0 or more", r.count))
		case !(r.rate >= 0.01 && r.rate <= 1000):
			return cli.Exit(cli.Usage, fmt.Errorf("--rate is %g: must be from 0.01 to 1000", r.rate))
		case r.stopAfter < 0:
			return cli.Exit(cli.Usage, fmt.Errorf("--stop-after is %d: must be 0 or more", r.stopAfter))
		}
		return run(cmd, args)
	}
	return cmd
}

// choose returns what to redrive, oldest first, and hands back the rest.
func (r *redrive) choose(ctx context.Context, names []string) (chosen []dead, missing []string, err error) {
	if len(names) > 0 {
		chosen, missing = r.named(names)
	} else {
		for _, d := range r.all {
			if d.last().Job.ID != "" {
				chosen = append(chosen, d)
			}
		}
	}
	chosen = slices.DeleteFunc(chosen, func(d dead) bool { return !strings.Contains(d.last().Reason, r.reason) })
	slices.SortStableFunc(chosen, func(a, b dead) int { return a.last().At.Compare(b.last().At) })
	if r.count > 0 {
		chosen = chosen[:min(r.count, len(chosen))]
	}
	mine := map[string]bool{}
	for _, d := range chosen {
		mine[d.name] = true
	}
	rest := slices.DeleteFunc(slices.Clone(r.all), func(d dead) bool { return mine[d.name] })
	return chosen, missing, r.box.HandBack(ctx, lettersOf(rest)...)
}

func (r *redrive) run(ctx context.Context, names []string) error {
	chosen, missing, err := r.choose(ctx, names)
	if err != nil {
		return err
	}
	if len(chosen) == 0 && len(missing) == 0 {
		fmt.Fprintln(r.err, "no dead letters to redrive, or somebody else holds them just now")
	}
	pace := time.NewTicker(time.Duration(float64(time.Second) / r.rate))
	defer pace.Stop()
	for i, d := range chosen {
		if i > 0 && !r.dry {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-pace.C:
			}
		}
		if again, err := r.again(ctx); err != nil {
			return fmt.Errorf("%d of %d left: %w", len(chosen)-i, len(chosen), err)
		} else if again {
			return cli.Exit(cli.Failed, fmt.Errorf("stopped with %d of %d left: %d redriven jobs have failed again with the same error as before", len(chosen)-i, len(chosen), r.same))
		}
		did, err := r.one(ctx, d)
		if did != "" {
			if _, err := fmt.Fprintf(r.out, "%s  %s\n", oneLine(d.name), did); err != nil {
				return err
			}
		}
		if err != nil {
			return fmt.Errorf("%d of %d left: %w", len(chosen)-i, len(chosen), err)
		}
	}
	if err := lacking(missing); err != nil {
		return err
	}
	if r.kept > 0 {
		return cli.Exit(cli.Failed, fmt.Errorf("%d of %d were not redriven", r.kept, len(chosen)))
	}
	return nil
}

// Time for one call each.
const (
	redriveCall    = 5 * time.Second
	redrivePublish = 30 * time.Second // a message of 10 MB
)

// one redrives one job and says what it did. Its letters are dropped last: until
// then a redrive that is killed can be done again. An error is one that the next
// job would meet as well.
func (r *redrive) one(ctx context.Context, d dead) (did string, err error) {
	l := d.last()
	if l.Cut > 0 {
		r.kept++
		return fmt.Sprintf("left: only %d of its %d bytes were kept", len(l.Data), l.Cut), nil
	}
	if r.dry {
		return "would be redriven", nil
	}
	did = "redriven"
	if l.Job.ID == "" {
		did = "redriven, though it names no job"
	} else {
		state, err := r.requeue(ctx, l.Job)
		switch {
		case err != nil:
			return "", err
		case state == jobs.Running, state == jobs.Canceled:
			r.kept++
			what := map[jobs.State]string{jobs.Running: "is running", jobs.Canceled: "was canceled since"}[state]
			return "left: it " + what, r.back(ctx, d)
		case state == jobs.Succeeded:
			return "dropped: it has succeeded since", r.drop(ctx, d)
		}
		// Queued is also what a redrive leaves that ended before it published; a
		// second message does no harm.
	}
	// From here on an interrupt comes too late: what is queued must be published.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), redrivePublish)
	defer cancel()
	if err := r.publish.Resend(call, l); err != nil {
		if l.Job.ID != "" {
			err = fmt.Errorf("%w (its status says queued; its dead letter is kept, redrive it again)", err)
		}
		return "", err
	}
	if l.Job.ID != "" {
		r.sent[l.Job.ID] = l.Reason
	}
	return did, r.drop(ctx, d)
}

func (r *redrive) requeue(ctx context.Context, job jobs.Job) (jobs.State, error) {
	call, cancel := context.WithTimeout(ctx, redriveCall)
	defer cancel()
	return r.status.Requeue(call, job)
}

func (r *redrive) drop(ctx context.Context, d dead) error {
	return r.box.Drop(context.WithoutCancel(ctx), d.letters...)
}

func (r *redrive) back(ctx context.Context, d dead) error { return r.box.HandBack(ctx, d.letters...) }

// again looks, now and then, at how the redriven jobs ended, and reports whether
// too many have failed as before.
func (r *redrive) again(ctx context.Context) (bool, error) {
	const every, most = time.Second / 2, 200
	if r.stopAfter == 0 || len(r.sent) == 0 || time.Since(r.looked) < every {
		return false, nil
	}
	r.looked = time.Now()
	ids := slices.Collect(maps.Keys(r.sent))
	call, cancel := context.WithTimeout(ctx, redriveCall)
	defer cancel()
	entries, err := r.status.Entries(call, ids[:min(most, len(ids))])
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if !e.State().Terminal() {
			continue
		}
		before, clipped := strings.CutSuffix(r.sent[e.ID], " …") // a letter has less room than a status
		if e.State() == jobs.Failed && (e.ErrorMsg == before || clipped && strings.HasPrefix(e.ErrorMsg, before)) {
			r.same++
		}
		delete(r.sent, e.ID)
	}
	return r.same >= r.stopAfter, nil
}

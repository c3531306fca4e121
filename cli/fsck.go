package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/operations/repair"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/status"
)

// fsckCommand makes a command that looks at all jobs, by audit, and repairs what it finds if it is told to.
func fsckCommand[E any, P settings.Of[E]](short, long, repairs string, audit func(env P, ctx context.Context, repair, asJSON bool, out io.Writer) error) *cobra.Command {
	var repair, asJSON bool
	c := &cobra.Command{
		Use: "fsck", Short: short, Long: long, Args: cobra.NoArgs,
		RunE: settings.With(func(cmd *cobra.Command, env P, _ []string) error {
			return audit(env, cmd.Context(), repair, asJSON, cmd.OutOrStdout())
		}),
	}
	c.Flags().BoolVar(&repair, "repair", false, repairs)
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

func gatewayFsckCommand() *cobra.Command {
	return fsckCommand("Prove that every job of a gateway is in exactly one place, and repair what is not",
		"Looks at all jobs in the Redis of REDIS_URL or REDIS_HOST, also while gateways run on it. Exits 0 if all\n"+
			"is well or was repaired, and 1 if not.",
		"repair what is found; jobs are queued again rather than lost", (*GatewayEnv).fsck)
}

func (e *GatewayEnv) fsck(ctx context.Context, repair, asJSON bool, out io.Writer) error {
	rdb := e.openRedis(4)
	defer rdb.Close()
	if err := e.reach(ctx, rdb); err != nil {
		return err
	}
	r, err := queue.New(rdb, e.rules()).Fsck(ctx, repair)
	if err != nil {
		return err
	}
	places := []place{{"in the queue", r.Queued}, {"under a lease", r.Leased}, {"delayed", r.Delayed}, {"dead letters", r.Dead}}
	if err := errors.Join(printAudit(out, r.Audit, r.ByState, places, r, asJSON), printNone(out, r.Audit, asJSON)); err != nil {
		return err
	}
	if left := r.Left + r.Unchecked; left > 0 {
		return program.Exit(program.Failed, fmt.Errorf("%s %s wrong or not looked at; %s", jobs.Count(left, "thing"), jobs.Are(left), advice(repair)))
	}
	return nil
}

func fleetFsckCommand() *cobra.Command {
	return fsckCommand("Find the jobs that Redis has forgotten or lists wrongly, and repair them",
		"Looks at all jobs of the fleet, also while workers run. With --repair, jobs whose result is stored are recorded as\n"+
			"completed, those that nobody has run for a minute are published again (harmless where their message exists), and\n"+
			"the lists are put right. Exits 0 if all is well or was repaired, and 1 if not. Workers do the same by themselves\n"+
			"every REPAIR_INTERVAL, and soon after Redis was restarted or has failed over. A gateway's jobs: gateway fsck.",
		"repair what is found", (*ClientEnv).fsck)
}

func (e *ClientEnv) fsck(ctx context.Context, fix, asJSON bool, out io.Writer) error {
	if err := e.there(); err != nil {
		return program.Exit(program.Usage, err)
	}
	store, err := e.openStorage(ctx)
	if err != nil {
		return err
	}
	publisher, err := e.openPublisher(ctx)
	if err != nil {
		return err
	}
	rdb := e.openRedis(0)
	defer closers{publisher, rdb}.Close()
	if err := e.reach(ctx, rdb); err != nil {
		return err
	}
	r := repair.Repair{Status: status.New(rdb), Store: store, Publish: publisher.Publish}
	report, err := r.Fsck(ctx, fix)
	printed := printAudit(out, report, report.Jobs, nil, report, asJSON) // what was repaired counts also where it could not go on
	if err == nil {
		err = printNone(out, report, asJSON)
	}
	err = errors.Join(err, printed)
	if err == nil && report.Left > 0 {
		err = program.Exit(program.Failed, fmt.Errorf("%s %s not repaired; %s", jobs.Count(report.Left, "finding"), jobs.Are(report.Left), advice(fix)))
	}
	return err
}

func advice(repair bool) string {
	if repair {
		return "run it again, or look at what it could not repair"
	}
	return "--repair repairs what it can"
}

// place is where jobs are kept, and how many are there.
type place struct {
	name string
	jobs int
}

// printAudit prints what was found as a table, with the states and places of the jobs, or all
// of it as JSON.
func printAudit(out io.Writer, a redisdb.Audit, states map[string]int, places []place, all any, asJSON bool) error {
	if asJSON {
		return printJSON(out, all)
	}
	t := newTable(out)
	for _, state := range slices.Sorted(maps.Keys(states)) {
		t.row(state, states[state])
	}
	for _, p := range places {
		t.row(p.name, p.jobs)
	}
	for _, kind := range slices.Sorted(maps.Keys(a.Counts)) {
		t.row("FOUND: "+kind, a.Counts[kind])
	}
	for _, f := range a.Findings {
		left := "NOT REPAIRED"
		if f.Harmless {
			left = "harmless"
		}
		t.row(f.Job, f.Kind, f.Detail, cmp.Or(f.Done, left))
	}
	if a.Unchecked > 0 {
		t.row("not looked at", a.Unchecked, "run it again")
	}
	return t.flush()
}

// printNone says that an audit that went through has found nothing.
func printNone(out io.Writer, a redisdb.Audit, asJSON bool) error {
	if asJSON || len(a.Counts) > 0 {
		return nil
	}
	looked := 0
	for _, n := range a.Jobs {
		looked += n
	}
	_, err := fmt.Fprintf(out, "no findings: %s looked at\n", jobs.Count(looked, "job"))
	return err
}

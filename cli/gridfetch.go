package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/grid/client"
)

// gridResultsCommand takes the results that leaders keep for a client.
func gridResultsCommand() *cobra.Command {
	var f gridSubmitFlags
	idle := span(2 * time.Second)
	c := &cobra.Command{
		Use: "results", Short: "Take the results that leaders keep for a client, such as those of jobs that were not waited for", Args: cobra.NoArgs,
		Long: "Take the results that leaders keep for a client: of jobs that were submitted without --wait, or by a process that has\n" +
			"ended before. Each is printed once, and then the leader need not keep it any more. A leader keeps results for 24 h, and\n" +
			"runs no more jobs of a client for which it keeps 256 MiB.",
		Example: "  batchfleet grid results --client clientA -o results",
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case f.client == "":
			return program.Exit(program.Usage, errors.New("--client is missing: the CLIENTID whose results they are"))
		case idle.D() < 100*time.Millisecond:
			return program.Exit(program.Usage, fmt.Errorf("--idle is %s: must be 100ms or more", idle.D()))
		}
		return f.fetch(cmd, idle.D())
	}
	flags := c.Flags()
	f.whose(flags)
	f.policy = "round-robin"
	f.queueTimeout = span(time.Minute)
	flags.Var(&idle, "idle", "end when no result has come for so long")
	flags.StringVarP(&f.dir, "output", "o", "", "put the files that each program has left into this directory, into one for each job")
	jsonFlag(c, &f.asJSON)
	f.peer.register(flags)
	return c
}

// fetch takes results until none has come for a while.
func (f *gridSubmitFlags) fetch(cmd *cobra.Command, idle time.Duration) error {
	ctx := cmd.Context()
	cfg, err := f.config()
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	cfg.Log = program.NewLog(os.Stderr, slog.LevelWarn)
	s := &gridSubmission{gridSubmitFlags: f, out: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), several: true}
	came := make(chan struct{}, 1)
	cfg.OnResult = func(r client.Result) error {
		select {
		case came <- struct{}{}:
		default:
		}
		return s.takeAny(r)
	}
	if err := connectAs(ctx, &f.peer, &cfg); err != nil {
		return err
	}
	m, err := client.New(cfg)
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	err = m.RunWith(ctx, func(ctx context.Context) error { return f.untilQuiet(ctx, m, came, idle) })
	return ofLeaders(ctx, errors.Join(append(s.errs, err)...))
}

// untilQuiet waits until a leader is connected, and then until no result has come for a while.
func (f *gridSubmitFlags) untilQuiet(ctx context.Context, m *client.Multi, came <-chan struct{}, idle time.Duration) error {
	const look = 100 * time.Millisecond
	for began := time.Now(); m.Unreached() != nil; {
		if time.Since(began) > f.queueTimeout.D() {
			return f.noAnswer(m)
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	quiet := time.NewTimer(idle)
	defer quiet.Stop()
	for {
		select {
		case <-came:
			quiet.Reset(idle)
		case <-quiet.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

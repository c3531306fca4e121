package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// withStatus makes the body of a command that needs the status store alone.
func withStatus(do func(cmd *cobra.Command, st *status.Store, args []string) error) func(*cobra.Command, []string) error {
	return settings.With(func(cmd *cobra.Command, env *RedisEnv, args []string) error {
		st, redis := env.openStatus(0)
		defer redis.Close()
		return do(cmd, st, args)
	})
}

// withJob is withStatus, for a command about one job, whose id it checks.
func withJob(do func(ctx context.Context, out io.Writer, st *status.Store, id jobs.ID) error) func(*cobra.Command, []string) error {
	return withStatus(func(cmd *cobra.Command, st *status.Store, args []string) error {
		id, err := jobs.ParseID(args[0])
		if err != nil {
			return program.Exit(program.Usage, err)
		}
		return unknownJob(id, do(cmd.Context(), cmd.OutOrStdout(), st, id))
	})
}

// unknownJob explains what it means that nothing is on record.
func unknownJob(id jobs.ID, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return program.Exit(program.Failed, fmt.Errorf("nothing is known of job %s: jobs are forgotten %s after their last change", id, status.TTL))
	}
	return err
}

func statusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status ID", Short: "Show how a job stands", Args: cobra.ExactArgs(1),
		RunE: withJob(func(ctx context.Context, out io.Writer, st *status.Store, id jobs.ID) error {
			e, err := st.Get(ctx, id)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(out, newRow(e, ""))
			}
			return printEntry(out, e)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printEntry(out io.Writer, e status.Entry) error {
	r, t := newRow(e, ""), newTable(out)
	pages := "" // of a job that has not succeeded, there are none yet
	if e.State() == jobs.Succeeded {
		pages = r.pages()
	}
	t.pairs(
		"job", e.ID, "status", cmp.Or(r.silence(), e.Status), "progress", fmt.Sprintf("%d%%", e.Progress), "message", e.Message,
		"result", e.ResultURL, "error", e.ErrorMsg, "pages", pages, "kind", r.Kind, "input", e.Detail.Input,
		"worker", r.Worker, "attempt", number(r.Attempt), "crashes", number(e.Detail.Crashes),
		"submitted", moment(e.Detail.Submitted), "started", moment(e.Detail.Started), "finished", moment(e.Detail.Finished), "updated", e.UpdatedAt,
	)
	return t.flush()
}

func watchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch ID", Short: "Print every change of a job until it ends; exit code 1 unless it succeeded", Args: cobra.ExactArgs(1),
		RunE: withJob(func(ctx context.Context, out io.Writer, st *status.Store, id jobs.ID) error {
			if _, err := st.Get(ctx, id); err != nil {
				return err
			}
			var last status.Entry
			err := follow(ctx, st, []jobs.ID{id}, func(e status.Entry) {
				last = e
				what := cmp.Or(newRow(e, "").silence(), e.Message)
				if e.ErrorMsg != "" {
					what += ": " + e.ErrorMsg
				}
				_, _ = fmt.Fprintf(out, "%s  %-10s %3d%%  %s\n", oneLine(e.UpdatedAt), oneLine(e.Status), e.Progress, oneLine(what))
			})
			if err == nil && last.State() != jobs.Succeeded {
				err = program.Exit(program.Failed, nil)
			}
			return err
		}),
	}
}

func cancelCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "Stop a job: a queued one at once, a running one within seconds", Args: cobra.ExactArgs(1),
		RunE: withJob(func(ctx context.Context, out io.Writer, st *status.Store, id jobs.ID) error {
			state, err := st.Cancel(ctx, id)
			switch {
			case errors.Is(err, status.ErrEnded):
				return program.Exit(program.Failed, fmt.Errorf("job %s has ended already: %s", id, state))
			case err != nil:
				return err
			}
			return printCanceled(out, string(id), state == jobs.Running)
		}),
	}
}

// printCanceled says what a request to cancel a job has done.
func printCanceled(out io.Writer, id string, running bool) error {
	did := "is canceled"
	if running {
		did = "is running and has been asked to stop"
	}
	_, err := fmt.Fprintf(out, "%s %s\n", id, did)
	return err
}

func logsCommand() *cobra.Command {
	var followLog bool
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Print a job's log", Args: cobra.ExactArgs(1),
		RunE: withJob(func(ctx context.Context, out io.Writer, st *status.Store, id jobs.ID) error {
			e, err := st.Get(ctx, id)
			if err != nil {
				return err
			}
			after, ended := "0", e.State().Terminal()
			for {
				lines, err := st.Lines(ctx, id, status.LogQuery{Tail: 1000, After: after})
				if err != nil {
					return err
				}
				for _, l := range lines {
					after = l.Pos
					if _, err := fmt.Fprintf(out, "%s  %s\n", l.Time.Format(time.RFC3339), oneLine(l.Text)); err != nil {
						return err
					}
				}
				if len(lines) == 1000 {
					continue
				}
				if !followLog || ended {
					return nil
				}
				if err := jobs.Sleep(ctx, pollEvery); err != nil {
					return err
				}
				if e, err = st.Get(ctx, id); err != nil {
					return err
				}
				ended = e.State().Terminal()
			}
		}),
	}
	cmd.Flags().BoolVarP(&followLog, "follow", "f", false, "go on until the job has ended")
	return cmd
}

func listCommand() *cobra.Command {
	var q status.Query
	var state string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs, newest first", Args: cobra.NoArgs,
		RunE: withStatus(func(cmd *cobra.Command, st *status.Store, _ []string) error {
			if q.Limit < 1 || q.Limit > status.MaxList {
				return program.Exit(program.Usage, fmt.Errorf("--limit is %d: must be from 1 to %d", q.Limit, status.MaxList))
			}
			if state != "" {
				if err := q.State.UnmarshalText([]byte(state)); err != nil {
					return program.Exit(program.Usage, fmt.Errorf("--status is %.20q: must be queued, running, succeeded, failed or canceled", state))
				}
			}
			entries, next, err := st.List(cmd.Context(), q)
			if errors.Is(err, status.ErrCursor) {
				return program.Exit(program.Usage, fmt.Errorf("--%w", err))
			}
			if err != nil {
				return err
			}
			rows := each(entries, func(e status.Entry) row { return newRow(e, e.Detail.Input) })
			if err := printResults(cmd.OutOrStdout(), rows, asJSON); err != nil {
				return err
			}
			if next != "" {
				more := "more: batchfleet list --cursor " + next
				if state != "" {
					more += " --status " + state
				}
				if q.Kind != "" {
					more += " --kind " + string(q.Kind)
				}
				fmt.Fprintln(cmd.ErrOrStderr(), oneLine(more))
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&state, "status", "", "only jobs that are queued, running, succeeded, failed or canceled")
	cmd.Flags().StringVar((*string)(&q.Kind), "kind", "", "only jobs of this kind")
	cmd.Flags().IntVar(&q.Limit, "limit", 50, "how many jobs, at most 200")
	cmd.Flags().StringVar(&q.Cursor, "cursor", "", "where an earlier list ended")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	return cmd
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	apiclient "github.com/batchfleet/batchfleet/jobapi/client"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

const maxJobList = 200

func jobListCommand(d *jobClient) *cobra.Command {
	var status, kind, cursor string
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs, newest first: of one scope, or of all of them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			q := jobapi.Query{Type: kind, Limit: limit, Cursor: cursor}
			if limit < 1 || limit > maxJobList {
				return program.Exit(program.Usage, fmt.Errorf("--limit is %d: must be from 1 to %d", limit, maxJobList))
			}
			if status != "" && q.Status.UnmarshalText([]byte(status)) != nil {
				return program.Exit(program.Usage, fmt.Errorf("--status is %.40q: want queued, running, succeeded, failed or canceled", status))
			}
			if scope, _, ok := strings.Cut(kind, "."); ok && d.scope == "" && slices.Contains(apiclient.Scopes(), scope) {
				d.scope = scope
			}
			if cursor != "" && d.scope == "" {
				return program.Exit(program.Usage, errors.New("--cursor is a place in the list of one scope: give --scope, too"))
			}
			return d.asking(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
				items, more, err := d.list(ctx, q)
				if err != nil {
					return err
				}
				err = printRows(cmd.OutOrStdout(), asJSON, items, []any{"JOB", "TYPE", "STATUS", "CREATED", "SECONDS", "WORKER"}, func(i jobapi.Item) []any {
					return []any{i.ID, i.Type, i.Status, moment(i.CreatedAt.Time), seconds(i.StartedAt, i.FinishedAt), i.Worker}
				})
				if err != nil {
					return err
				}
				for _, m := range more {
					fmt.Fprintln(cmd.ErrOrStderr(), m.hint(cmd))
				}
				return nil
			})(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&status, "status", "", "only jobs that are queued, running, succeeded, failed or canceled")
	flags.StringVar(&kind, "type", "", "only jobs of a type, such as fleet.pdf")
	flags.IntVar(&limit, "limit", 50, "how many jobs, at most 200")
	flags.StringVar(&cursor, "cursor", "", "where an earlier list of that scope ended")
	flags.BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	return cmd
}

// moreJobs says where the rest of a list is. Without a cursor the scope's own list
// has it, from its beginning: a list of all scopes has no place in one of them.
type moreJobs struct{ scope, cursor string }

// hint says what to type, with the flags that were given to this command.
func (m moreJobs) hint(cmd *cobra.Command) string {
	say := "more: batchfleet job list --scope " + m.scope
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "scope", "cursor":
		case "json":
			say += " --json"
		default:
			say += " --" + f.Name + " " + program.ShellWord(oneLine(f.Value.String()))
		}
	})
	if m.cursor == "" {
		return strings.Replace(say, "more:", "more of "+m.scope+", from its newest on:", 1)
	}
	return say + " --cursor " + program.ShellWord(oneLine(m.cursor))
}

// list returns jobs of the client's scope, or the newest of all that the server has.
func (d *jobClient) list(ctx context.Context, q jobapi.Query) (items []jobapi.Item, more []moreJobs, err error) {
	if d.scope != "" {
		page, err := d.List(ctx, d.scope, q)
		if page.Next != "" {
			more = append(more, moreJobs{d.scope, page.Next})
		}
		return page.Items, more, err
	}
	var missing error
	found := 0
	for _, scope := range apiclient.Scopes() {
		page, err := d.List(ctx, scope, q)
		if refused, ok := errors.AsType[*jobapi.Refusal](err); ok && refused.Status == http.StatusNotFound {
			missing = err // a server need not have all scopes
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		found++
		items = append(items, page.Items...)
		if page.Next != "" {
			more = append(more, moreJobs{scope: scope})
		}
	}
	if found == 0 {
		return nil, nil, missing
	}
	slices.SortStableFunc(items, func(a, b jobapi.Item) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt.Time), cmp.Compare(b.ID, a.ID))
	})
	for _, cut := range items[min(q.Limit, len(items)):] {
		if !slices.Contains(more, moreJobs{scope: cut.Scope}) && slices.Contains(apiclient.Scopes(), cut.Scope) {
			more = append(more, moreJobs{scope: cut.Scope})
		}
	}
	return items[:min(q.Limit, len(items))], more, nil
}

func jobGetCommand(d *jobClient) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "get ID", Short: "Show a job and its steps", Args: cobra.ExactArgs(1),
		RunE: d.aboutJob("get", func(_ context.Context, cmd *cobra.Command, j jobapi.Job) error {
			if asJSON {
				return printJSON(cmd.OutOrStdout(), j)
			}
			return printJob(cmd.OutOrStdout(), j)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printJob(out io.Writer, j jobapi.Job) error {
	failure := ""
	if j.Error != nil {
		failure = j.Error.Code + ": " + j.Error.Message
	}
	t := newTable(out)
	t.pairs(
		"job", j.ID, "type", j.Type, "status", j.Status,
		"created", moment(j.CreatedAt.Time), "started", moment(j.StartedAt.Time), "finished", moment(j.FinishedAt.Time),
		"attempt", number(j.Attempt), "worker", j.Worker, "request", jsonObject(j.Request), "result", jsonObject(j.Result), "error", failure,
	)
	if err := t.flush(); err != nil || len(j.Steps) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return printRows(out, false, j.Steps, []any{"STEP", "STATUS", "SECONDS", "MESSAGE"}, func(s jobapi.Step) []any {
		return []any{s.Name, s.Status, seconds(s.StartedAt, s.FinishedAt), s.Message}
	})
}

// jsonObject returns an object as it is, and nothing for none or an empty one.
func jsonObject(raw []byte) string {
	if s := string(raw); s != "null" && s != "{}" {
		return s
	}
	return ""
}

// ended is an error with exit code 1 unless the job has succeeded.
func ended(j jobapi.Job) error {
	switch {
	case j.Status == jobs.Succeeded:
		return nil
	case j.Error != nil:
		return program.Exit(program.Failed, fmt.Errorf("job %s %s: %s: %s", j.ID, j.Status, j.Error.Code, j.Error.Message))
	}
	return program.Exit(program.Failed, fmt.Errorf("job %s is %s", j.ID, j.Status))
}

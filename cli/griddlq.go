package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobs"
)

// gridDead is a dead letter as a leader shows it.
type gridDead struct {
	ID       string        `json:"jobId"`
	Client   string        `json:"clientId"`
	Exec     string        `json:"execName"`
	Reason   string        `json:"reason"`
	At       jobapi.Time   `json:"failedAt"`
	Attempts []gridAttempt `json:"attempts"` // the last ones
}

type gridAttempt struct {
	Number int         `json:"attempt"`
	Worker string      `json:"worker"`
	Reason string      `json:"reason"`
	At     jobapi.Time `json:"endedAt"`
}

// gridDeadPage has the newest dead letters, and says how many there are.
type gridDeadPage struct {
	Items []gridDead `json:"items"`
	Count int        `json:"count"`
}

const (
	gridDeadPath = "/api/v1/grid/dead-letters"
	maxGridDead  = 1000 // in one answer
)

// gridDeadRoutes are those of a leader about its dead letters. To queue one again is a route of the Job API.
func gridDeadRoutes(l *leader.Leader) []jobapi.Route {
	return []jobapi.Route{
		{Pattern: "GET " + gridDeadPath, Need: access.Read, Handle: func(w http.ResponseWriter, r *http.Request) error {
			count, err := strconv.Atoi(r.URL.Query().Get("count"))
			if err != nil || count < 1 || count > maxGridDead {
				return &jobapi.FieldError{Field: "count", Problem: fmt.Sprintf("must be from 1 to %d", maxGridDead)}
			}
			page, err := deadLetters(r.Context(), l, count)
			if err != nil {
				return err
			}
			text, err := httpd.EncodeJSON(page)
			if err == nil {
				httpd.WriteJSON(w, http.StatusOK, text)
			}
			return err
		}},
		{Pattern: "POST " + gridDeadPath + "/{jobId}/drop", Need: access.Operate, Handle: func(w http.ResponseWriter, r *http.Request) error {
			id, _ := wire.ParseGUID(r.PathValue("jobId")) // no job has the zero one
			dropped := false
			if err := askLeader(r.Context(), l, func(c *schedule.Core) { dropped = c.Drop(l.Now(), id) }); err != nil {
				return err
			}
			if !dropped {
				return &jobapi.Refusal{Status: http.StatusNotFound, Code: jobapi.CodeNotFound, Message: "No such dead letter"}
			}
			httpd.WriteJSON(w, http.StatusOK, []byte("{}"))
			return nil
		}},
	}
}

func askLeader(ctx context.Context, l *leader.Leader, f func(*schedule.Core)) error {
	if err := l.Do(ctx, f); err != nil {
		return fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
	}
	return nil
}

// deadLetters returns the newest dead letters of a leader.
func deadLetters(ctx context.Context, l *leader.Leader, count int) (page gridDeadPage, err error) {
	page.Items = []gridDead{}
	now := time.Now()
	err = askLeader(ctx, l, func(c *schedule.Core) {
		at := func(m schedule.Moment) jobapi.Time { return jobapi.At(now.Add(m - l.Now())) }
		page.Count = c.Numbers().Dead
		skip := page.Count - count
		c.Dead(func(i schedule.Info) bool {
			if skip--; skip >= 0 {
				return true
			}
			d := gridDead{ID: i.ID.String(), Client: i.Client, Exec: i.Exec, Reason: jobapi.ShownText(i.Reason, 2<<10), At: at(i.Since), Attempts: []gridAttempt{}}
			for _, a := range i.History {
				d.Attempts = append(d.Attempts, gridAttempt{a.Number, jobapi.ShownText(a.Worker, 255), jobapi.ShownText(a.Reason, 2<<10), at(a.At)})
			}
			page.Items = append(page.Items, d)
			return true
		})
	})
	slices.Reverse(page.Items)
	return page, err
}

func gridDLQCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dlq", Short: "Look at dead letters, jobs that were given up; queue them again or drop them", Args: cobra.NoArgs,
		Long: "Look at dead letters: jobs that the leader has given up, because all their attempts were used up or they lost too many\n" +
			"workers. Their clients were told. Queue them again, or drop them.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		gridDLQListCommand(),
		ofGrid(getCommand, "show JOB…", "Show a dead letter, and how it was tried", "  batchfleet grid dlq show 35918bc9-196d-40ea-9779-889d79b753f0"),
		ofGrid(retryCommand, "requeue JOB…", "Queue dead letters again, as if they had never run", "  batchfleet grid dlq requeue 35918bc9-196d-40ea-9779-889d79b753f0"),
		gridDLQDropCommand(),
	)
	return cmd
}

func gridDLQListCommand() *cobra.Command {
	c := &connection{}
	var count int
	var asJSON bool
	cmd := &cobra.Command{Use: "list", Short: "List dead letters, newest first", Args: cobra.NoArgs, Example: "  batchfleet grid dlq list --count 10"}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if count < 1 || count > maxGridDead {
			return program.Exit(program.Usage, fmt.Errorf("--count is %d: must be from 1 to %d", count, maxGridDead))
		}
		return c.connected(needRedis, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			var page gridDeadPage
			if err := c.Call(ctx, http.MethodGet, gridDeadPath+"?count="+strconv.Itoa(count), nil, &page); err != nil {
				return fmt.Errorf("list dead letters: %w", err)
			}
			now := time.Now()
			err := printRows(cmd.OutOrStdout(), asJSON, page.Items, []any{"JOB", "EXEC", "CLIENT", "AGE", "ATTEMPTS", "REASON"}, func(d gridDead) []any {
				return []any{d.ID, d.Exec, d.Client, age(now, d.At), len(d.Attempts), d.Reason}
			})
			if more := page.Count - len(page.Items); err == nil && more > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%d more: raise --count\n", more)
			}
			if err == nil && page.Count == 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "no dead letters")
			}
			return err
		})(cmd, args)
	}
	c.flags(cmd)
	cmd.Flags().IntVar(&count, "count", 100, "how many, at most")
	jsonFlag(cmd, &asJSON)
	gridDefaults(cmd)
	c.scope = leader.Scope
	return cmd
}

func gridDLQDropCommand() *cobra.Command {
	c := &connection{}
	cmd := &cobra.Command{
		Use: "drop JOB…", Short: "Forget dead letters", Args: cobra.MinimumNArgs(1), Example: "  batchfleet grid dlq drop 35918bc9-196d-40ea-9779-889d79b753f0",
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkIDs(args); err != nil {
			return err
		}
		return c.connected(needRedis, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			var failed []error
			for _, id := range args {
				err := c.Call(ctx, http.MethodPost, gridDeadPath+"/"+url.PathEscape(id)+"/drop", nil, nil)
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is dropped\n", oneLine(id))
				} else {
					err = fmt.Errorf("drop dead letter %s: %w", id, err)
				}
				failed = append(failed, err)
				if ctx.Err() != nil || errors.Is(err, jobs.ErrUnavailable) {
					break
				}
			}
			return errors.Join(failed...)
		})(cmd, args)
	}
	c.flags(cmd)
	gridDefaults(cmd)
	c.scope = leader.Scope
	cmd.ValidArgsFunction = c.completeJobs
	return cmd
}

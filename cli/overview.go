package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
)

// overviewCommand shows the whole fleet on one screen.
func overviewCommand(c *connection) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "overview", SuggestFor: []string{"top", "stats", "info"}, Short: "Show the whole fleet on one screen", Args: cobra.NoArgs,
		Long: "Show the whole fleet on one screen: what somebody should look at first, then jobs by their state, kinds with how long\n" +
			"their jobs wait, workers, and the most frequent errors of the newest failed jobs. `batchfleet list --error GROUP` lists\n" +
			"the jobs of one, and `batchfleet run retry --error GROUP` runs them again.",
		Example: "  batchfleet overview\n  batchfleet overview --json | jq .workers",
		RunE: c.connected(needRedis, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			o, err := c.Overview(ctx)
			if noRoute(err) {
				return program.Exit(program.Failed, errors.New("this server gives no overview: `batchfleet list` and `batchfleet workers` show what it has"))
			}
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), o)
			}
			return printOverview(cmd.OutOrStdout(), &o)
		}),
	}
	c.flags(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// printOverview prints the parts that there are, with an empty line between them.
func printOverview(out io.Writer, o *jobapi.Overview) error {
	now := o.At.Time
	if o.At.IsZero() {
		now = time.Now()
	}
	if err := printWarnings(out, now, o.Warnings); err != nil {
		return err
	}
	if err := printScopes(out, o.Scopes); err != nil {
		return err
	}
	if err := printKindStates(out, now, o); err != nil {
		return err
	}
	w := o.Workers
	if _, err := fmt.Fprintf(out, "\nworkers: %d working, %d idle, %d draining, %d not ready, %d silent; %d of %d slots in use\n", w.Working, w.Idle, w.Draining, w.Unready, w.Silent, w.InHand, w.Slots); err != nil {
		return err
	}
	if len(o.Errors) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(out)
	return printRows(out, false, o.Errors, []any{"ERRORS", "KIND", "NEWEST", "GROUP", "MESSAGE"}, func(e jobapi.ErrorGroup) []any {
		return []any{e.Count, kindOf(e.Type), age(now, e.Newest), e.Fingerprint, reasonOf(&jobapi.Error{Code: e.Code, Message: e.Message})}
	})
}

func printWarnings(out io.Writer, now time.Time, all []jobapi.Warning) error {
	for _, w := range all {
		since := ""
		if !w.Since.IsZero() {
			since = " (for " + age(now, w.Since) + ")"
		}
		if _, err := fmt.Fprintf(out, "%s: %s%s\n", w.Code, oneLine(w.Message), since); err != nil {
			return err
		}
	}
	if len(all) > 0 {
		_, err := fmt.Fprintln(out)
		return err
	}
	return nil
}

func upper(names []string) []any {
	return each(names, func(s string) any { return strings.ToUpper(s) })
}

func printScopes(out io.Writer, all []jobapi.ScopeOverview) error {
	away := func(s jobapi.ScopeOverview) bool { return s.Unavailable != "" }
	head := append([]any{"SCOPE"}, upper(stateNames())...)
	err := printRows(out, false, slices.DeleteFunc(slices.Clone(all), away), append(head, "DEAD"), func(s jobapi.ScopeOverview) []any {
		dead := ""
		if s.DeadLetters != nil {
			dead = fmt.Sprint(*s.DeadLetters)
		}
		return append(append([]any{s.Name}, each(stateNames(), func(state string) any { return s.States[state] })...), dead)
	})
	for _, s := range all {
		if err == nil && away(s) {
			_, err = fmt.Fprintf(out, "%s: %s\n", s.Name, oneLine(s.Unavailable))
		}
	}
	return err
}

// kindOverview is a kind of a scope.
type kindOverview struct {
	scope string
	jobapi.KindOverview
}

func printKindStates(out io.Writer, now time.Time, o *jobapi.Overview) error {
	var all []kindOverview
	for _, s := range o.Scopes {
		all = append(all, each(s.Kinds, func(k jobapi.KindOverview) kindOverview { return kindOverview{s.Name, k} })...)
	}
	if len(all) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(out)
	head := []any{"KIND", "SCOPE", "QUEUED", "RUNNING", "OLDEST", "WORKERS", "SLOTS", "WAIT", "RUN", "PAUSED"}
	return printRows(out, false, all, head, func(k kindOverview) []any {
		return []any{k.Kind, k.scope, k.Queued, k.Running, age(now, k.Oldest), k.Workers, k.Slots, quantiles(k.Wait), quantiles(k.Run), pausedFor(now, k.Paused)}
	})
}

// quantiles shows the median and what 95 of 100 jobs stay below.
func quantiles(q *jobapi.Quantiles) string {
	if q == nil {
		return ""
	}
	return milliseconds(q.P50) + "/" + milliseconds(q.P95)
}

func milliseconds(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return short(d)
}

func pausedFor(now time.Time, since jobapi.Time) string {
	if since.IsZero() {
		return ""
	}
	return "for " + age(now, since)
}

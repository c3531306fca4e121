package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
	apiclient "github.com/batchfleet/batchfleet/jobapi/client"
)

// kindStateRow is how a kind of a fleet is printed as JSON.
type kindStateRow struct {
	Scope string `json:"scope"`
	jobapi.KindInfo
}

// kindStatusCommand lists the kinds of a fleet, and how they stand.
func kindStatusCommand(c *connection) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show how the kinds of the fleet stand: jobs, workers, pauses", Args: cobra.NoArgs,
		Long: "Show how the kinds of the fleet stand, as the server knows them: how many jobs are queued and running, how\n" +
			"long the oldest has been waiting, how many live workers run them, and whether they are paused.",
		Example: "  batchfleet kinds status\n  batchfleet kinds status --scope gateway --api https://jobs.example.com",
		RunE: c.connected(needRedis, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			rows, err := c.kindStates(ctx)
			if err != nil {
				return err
			}
			now := time.Now()
			head := []any{"KIND", "SCOPE", "QUEUED", "RUNNING", "OLDEST", "WORKERS", "SLOTS", "PAUSED"}
			return printRows(cmd.OutOrStdout(), asJSON, rows, head, func(k kindStateRow) []any {
				return []any{k.Name, k.Scope, k.Queued, k.Running, age(now, k.Oldest), k.Workers, k.Slots, pausedFor(now, k.Paused)}
			})
		}),
	}
	c.flags(cmd)
	c.scopeFlag(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// kindStates returns the kinds of the scope that was given, or of all that there are.
func (c *connection) kindStates(ctx context.Context) (rows []kindStateRow, err error) {
	scopes := apiclient.Scopes()[len(jobOperations):] // operations are no kinds, unless somebody asks for them
	if c.scope != "" {
		scopes = []string{c.scope}
	}
	missing := 0
	for _, scope := range scopes {
		kinds, err := c.Kinds(ctx, scope)
		if noRoute(err) {
			missing++
			continue
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, each(kinds, func(k jobapi.KindInfo) kindStateRow { return kindStateRow{scope, k} })...)
	}
	if missing == len(scopes) {
		return nil, program.Exit(program.Failed, fmt.Errorf("this server tells of no kinds%s", ofScopeText(c.scope)))
	}
	return rows, nil
}

func ofScopeText(scope string) string {
	if scope == "" {
		return ""
	}
	return " of scope " + scope
}

// kindPauseCommands are the commands that pause and resume kinds.
func kindPauseCommands() []*cobra.Command {
	return []*cobra.Command{
		kindActionCommand(&connection{}, "pause", "Let no worker begin jobs of kinds: they stay queued, running ones go on",
			func(ctx context.Context, c *connection, scope, kind string) (string, error) {
				since, err := c.PauseKind(ctx, scope, kind)
				return "is paused since " + moment(since.Local()) + "; its jobs stay queued until `batchfleet kinds resume " + oneLine(kind) + "`", err
			}),
		kindActionCommand(&connection{}, "resume", "Let workers begin jobs of paused kinds again",
			func(ctx context.Context, c *connection, scope, kind string) (string, error) {
				return "is not paused", c.ResumeKind(ctx, scope, kind)
			}),
	}
}

func kindActionCommand(c *connection, action, short string, do func(ctx context.Context, c *connection, scope, kind string) (string, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use: action + " KIND…", Short: short, Args: cobra.MinimumNArgs(1), Example: "  batchfleet kinds " + action + " pdf",
		RunE: c.connected(needRedis, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				scope, kind, err := c.kindNamed(ctx, arg)
				if err != nil {
					return err
				}
				did, err := do(ctx, c, scope, kind)
				if noRoute(err) {
					return program.Exit(program.Failed, fmt.Errorf("%w; `batchfleet kinds status%s` lists the kinds that this server can %s", err, c.given(), action))
				}
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s of %s %s\n", oneLine(kind), scope, did); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.flags(cmd)
	c.scopeFlag(cmd)
	cmd.ValidArgsFunction = c.completeKinds
	return cmd
}

// completeKinds completes the kinds that the server knows.
func (c *connection) completeKinds(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return c.completed(begun, func(ctx context.Context) ([][2]string, error) {
		rows, err := c.kindStates(ctx)
		return each(rows, func(k kindStateRow) [2]string { return [2]string{k.Name, k.Scope} }), err
	})
}

// kindNamed returns the scope and the kind that people call so: pdf, zpe, or gateway.thumbnail. Without a scope it is looked
// for.
func (c *connection) kindNamed(ctx context.Context, name string) (scope, kind string, err error) {
	if name == zpeKind && (c.scope == "" || c.scope == "zpe") {
		scope, jobType := typeOf(name)
		return scope, strings.TrimPrefix(jobType, scope+"."), nil
	}
	if scope, kind, ok := strings.Cut(name, "."); ok && slices.Contains(apiclient.Scopes(), scope) {
		return scope, kind, nil
	}
	if c.scope != "" {
		return c.scope, name, nil
	}
	rows, err := c.kindStates(ctx)
	if err != nil {
		return "", "", err
	}
	var scopes []string
	for _, k := range rows {
		if k.Name == name {
			scopes = append(scopes, k.Scope)
		}
	}
	switch len(scopes) {
	case 0:
		return "", "", program.Exit(program.Failed, fmt.Errorf("%.40q is no kind that this server knows; `batchfleet kinds status%s` lists them", name, c.given()))
	case 1:
		return scopes[0], name, nil
	}
	return "", "", program.Exit(program.Usage, errors.New("--scope is needed: "+strings.Join(scopes, " and ")+" have a kind "+oneLine(name)))
}

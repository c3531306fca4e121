package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/jobapi"
	apiclient "github.com/batchfleet/batchfleet/jobapi/client"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/relay"
)

const maxJobList = 200

func listCommand(c *connection) *cobra.Command {
	var state, kind, cursor string
	var match matchFlags
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, SuggestFor: []string{"jobs"}, Short: "List jobs, newest first", Args: cobra.NoArgs,
		Long: "List jobs, newest first: of the Pub/Sub workers, of the gateway's agents, and, with --api, the operations that this\n" +
			"server has run.",
		Example: `  batchfleet list
  batchfleet list --state failed --kind pdf --since 24h
  batchfleet list --text 'no space left'
  batchfleet list --api https://jobs.example.com --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			q := listing{Query: jobapi.Query{Limit: limit, Cursor: cursor}}
			if limit < 1 || limit > maxJobList {
				return program.Exit(program.Usage, fmt.Errorf("--limit is %d: must be from 1 to %d", limit, maxJobList))
			}
			if state != "" {
				var err error
				if q.Status, err = parseState(state); err != nil {
					return program.Exit(program.Usage, fmt.Errorf("--state: %w", err))
				}
			}
			if kind != "" {
				if plain := strings.ReplaceAll(kind, ".", ""); !pubsub.ValidKind(plain) {
					return program.Exit(program.Usage, fmt.Errorf("--kind is %.40q: want a kind, such as pdf, zpe or utils.redrive", kind))
				}
				scope, jobType := typeOf(kind)
				switch {
				case c.scope == "":
					c.scope = scope
				case (c.scope == relay.Scope || c.scope == gatewayScope || c.scope == leader.Scope) && !strings.Contains(kind, "."):
					jobType = c.scope + "." + kind
				}
				q.Type = jobType
			}
			if err := match.into(&q); err != nil {
				return program.Exit(program.Usage, err)
			}
			if cursor != "" && c.scope == "" {
				return program.Exit(program.Usage, errors.New("--cursor is a place in the list of one scope: give --scope, too"))
			}
			return c.connected(needRedis, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
				items, more, err := c.list(ctx, q)
				if err != nil {
					return err
				}
				if err := printItems(cmd, items, asJSON); err != nil {
					return err
				}
				if len(items) == 0 && c.local != nil && c.scope != "" && !keepers[c.scope] {
					fmt.Fprintln(cmd.ErrOrStderr(), "batchfleet: operations are known only to the server that runs them: --api")
				}
				for _, m := range more {
					fmt.Fprintln(cmd.ErrOrStderr(), m.hint(cmd))
				}
				return nil
			})(cmd, args)
		},
	}
	flags := cmd.Flags()
	c.flags(cmd)
	c.scopeFlag(cmd)
	flags.StringVar(&state, "state", "", "only jobs that are queued, running, succeeded, failed or canceled")
	flags.StringVar(&state, "status", "", "the same as --state")
	flags.StringVar(&kind, "kind", "", "only jobs of this kind, such as pdf, zpe or utils.redrive; a document that was submitted without one has none until a worker takes it")
	flags.StringVar(&kind, "type", "", "the same as --kind")
	hide(cmd, "status", "type")
	match.register(cmd, c)
	flags.IntVar(&limit, "limit", 50, "how many jobs, at most 200")
	flags.StringVar(&cursor, "cursor", "", "where an earlier list of that scope ended")
	jsonFlag(cmd, &asJSON)
	complete(cmd, "state", stateNames)
	complete(cmd, "kind", allKinds)
	return cmd
}

func printItems(cmd *cobra.Command, items []jobapi.Item, asJSON bool) error {
	now := time.Now()
	return printRows(cmd.OutOrStdout(), asJSON, items, []any{"JOB", "KIND", "STATE", "AGE", "TOOK", "WORKER"}, func(i jobapi.Item) []any {
		return []any{i.ID, kindOf(i.Type), i.Status, age(now, i.CreatedAt), seconds(i.StartedAt, i.FinishedAt), workerOf(i.Worker, i.Silent)}
	})
}

// workerOf returns the name of a job's worker, and that it is silent.
func workerOf(name string, silent int) string {
	if silent > 0 {
		return fmt.Sprintf("silent for %ds: %s", silent, name)
	}
	return name
}

// moreJobs is where the list of a scope goes on: behind the last of its jobs that was shown, or at
// its beginning where none was.
type moreJobs struct{ scope, cursor string }

// hint says what to type, with the flags that were given to this command.
func (m moreJobs) hint(cmd *cobra.Command) string {
	say := "more: " + cmd.CommandPath()
	if f := cmd.Flags().Lookup("scope"); f != nil && !f.Hidden {
		say += " --scope " + m.scope
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "scope", "cursor":
		case "json":
			say += " --json"
		default:
			say += " --" + f.Name + " " + program.ShellWord(oneLine(f.Value.String()))
		}
	})
	if m.cursor != "" {
		say += " --cursor " + program.ShellWord(oneLine(m.cursor))
	}
	return say
}

// list returns jobs of the scope that was given, or the newest of all that there are.
func (c *connection) list(ctx context.Context, q listing) (items []jobapi.Item, more []moreJobs, err error) {
	if c.scope != "" {
		page, err := c.page(ctx, c.scope, q)
		if page.Next != "" {
			more = append(more, moreJobs{c.scope, page.Next})
		}
		return page.Items, more, err
	}
	var missing error
	pages := map[string]jobapi.Page{}
	for _, scope := range apiclient.Scopes() {
		page, err := c.page(ctx, scope, q)
		if refused, ok := errors.AsType[*jobapi.Refusal](err); ok && refused.Status == http.StatusNotFound {
			missing = err // a server need not have all scopes
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		pages[scope] = page
		items = append(items, page.Items...)
	}
	if len(pages) == 0 {
		return nil, nil, missing
	}
	slices.SortStableFunc(items, func(a, b jobapi.Item) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt.Time), cmp.Compare(b.ID, a.ID))
	})
	items = items[:min(q.Limit, len(items))]
	for _, scope := range apiclient.Scopes() {
		m, ok, err := c.rest(ctx, scope, q, pages[scope], items)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			more = append(more, m)
		}
	}
	return items, more, nil
}

// rest returns where the list of a scope goes on, of whose page only what is among shown was shown,
// and whether it does. Where the page was cut the server is asked once more, for a page that ends
// there: only the server makes cursors. A job that has come meanwhile makes a job appear twice, and
// none is left out.
func (c *connection) rest(ctx context.Context, scope string, q listing, page jobapi.Page, shown []jobapi.Item) (m moreJobs, ok bool, err error) {
	isCut := func(i jobapi.Item) bool {
		return !slices.ContainsFunc(shown, func(s jobapi.Item) bool { return s.Scope == i.Scope && s.ID == i.ID })
	}
	switch cut := slices.IndexFunc(page.Items, isCut); cut {
	case -1:
		return moreJobs{scope, page.Next}, page.Next != "", nil
	case 0:
		return moreJobs{scope: scope}, true, nil
	default:
		q.Limit = cut
		page, err = c.page(ctx, scope, q)
		return moreJobs{scope, page.Next}, page.Next != "", err
	}
}

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
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/relay"
)

func workersCommand(c *connection) *cobra.Command {
	cmd := workersListCommand(c)
	cmd.Use, cmd.Short = "workers", "List the workers; drain one, let a gateway's register, and revoke them"
	cmd.Long = "List the workers: those of Pub/Sub as they report themselves (working, idle, draining, not ready and why, or\n" +
		"silent), and those that have registered with a gateway (working, registered, or revoked). Of the latter only working\n" +
		"shows that one lives; with --api they need the gateway's admin token. A worker of Pub/Sub that is not ready takes no\n" +
		"jobs. One that was killed is silent after 15 s and shown for an hour; other workers take over its jobs."
	cmd.Example = `  batchfleet workers
  batchfleet workers drain worker-7
  batchfleet workers enroll --out enroll.token
  batchfleet workers revoke w-A5OZPR5riAUdH75QzXKPuw`
	cmd.Args = cobra.NoArgs
	cmd.AddCommand(workersListCommand(&connection{}), workersEnrollCommand(&connection{}), workersRevokeCommand(&connection{}))
	cmd.AddCommand(workersActionCommand(&connection{}, "drain"), workersActionCommand(&connection{}, "resume"))
	return cmd
}

func workersListCommand(c *connection) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the workers", Args: cobra.NoArgs,
		RunE: c.connected(needRedis, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			rows, err := c.workers(ctx, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			now := time.Now()
			err = printRows(cmd.OutOrStdout(), asJSON, rows, []any{"WORKER", "STATE", "JOBS", "SLOTS", "KINDS", "SEEN", "HOST", "VERSION"}, func(w workerRow) []any {
				state, inHand := w.State, fmt.Sprint(w.Jobs)
				switch {
				case w.unready():
					state = "not ready"
				case w.silent() && w.Jobs == 0: // it may have had one: that is reported within a second
					state, inHand = "silent for "+age(now, w.Seen), ""
				case w.silent():
					state, inHand = "silent for "+age(now, w.Seen), "had "+inHand // they are not its jobs any more
				}
				return []any{w.label(), state, inHand, number(w.Slots), strings.Join(w.Kinds, ","), age(now, w.Seen), w.Host, w.Version}
			})
			if err == nil && !asJSON && slices.ContainsFunc(rows, workerRow.silent) {
				fmt.Fprintln(cmd.ErrOrStderr(), "batchfleet: a silent worker was killed or cannot reach Redis: other workers take over the jobs it had after 15 to 20 s, as soon as they have a free slot; it is shown until it has been silent for an hour")
			}
			if why := notReady(each(rows, func(w workerRow) jobapi.Worker { return w.Worker }), ""); err == nil && !asJSON && why != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "batchfleet:", oneLine(why))
			}
			return err
		}),
	}
	c.flags(cmd)
	c.workerScopeFlag(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// workerRow is how a worker is printed as JSON. Of a gateway's less is known.
type workerRow struct {
	Scope string `json:"scope"` // fleet, zpe, gateway or grid
	jobapi.Worker
}

// silent reports whether it has not been heard of for as long as its claims last.
func (w workerRow) silent() bool { return w.State == "silent" }

// unready reports whether it lives and takes no jobs, because one of its checks fails.
func (w workerRow) unready() bool { return w.State == "unready" }

// label is what people call a worker: a gateway's by its id, which is what is revoked.
func (w workerRow) label() string {
	if w.Scope != "zpe" && w.Scope != gatewayScope {
		return cmp.Or(w.Name, w.ID)
	}
	if w.Name != "" {
		return w.ID + " (" + w.Name + ")"
	}
	return w.ID
}

// workers returns the workers of the scope that was given, or of all that there are, those of the fleet first. A server that
// does not let this caller look at the gateway's is no error if it shows the others.
func (c *connection) workers(ctx context.Context, stderr io.Writer) (rows []workerRow, err error) {
	scopes := []string{"fleet", "zpe", gatewayScope, relay.Scope, leader.Scope}
	if c.scope != "" {
		scopes = []string{c.scope}
	}
	var missing error
	known := 0
	for _, scope := range scopes {
		if c.local != nil && !c.local.gateway && scope != "fleet" {
			continue
		}
		all, err := c.WorkersOf(ctx, scope)
		switch {
		case noRoute(err) && scope == "zpe":
			old, ok, err := c.registered(ctx, stderr)
			if err != nil {
				return nil, err
			}
			if ok {
				known++
				rows = append(rows, old...)
			}
			continue
		case noRoute(err):
			missing = cmp.Or(missing, err)
			continue
		case err != nil:
			return nil, err
		}
		known++
		for _, w := range all {
			if !slices.ContainsFunc(rows, func(r workerRow) bool { return r.ID == w.ID }) { // an agent may be of two scopes
				slices.Sort(w.Kinds)
				rows = append(rows, workerRow{scope, w})
			}
		}
	}
	if known == 0 {
		return nil, missing
	}
	return rows, nil
}

// registered returns those who have registered with a gateway, by a route of its own; ok is false when there is no gateway.
func (c *connection) registered(ctx context.Context, stderr io.Writer) (rows []workerRow, ok bool, err error) {
	list, count, err := c.gateway().Workers(ctx)
	if refused, isRefusal := errors.AsType[*jobapi.Refusal](err); isRefusal {
		switch {
		case refused.Status == http.StatusNotFound: // there is no gateway at all
			return nil, false, nil
		case refused.Status == http.StatusUnauthorized, refused.Status == http.StatusForbidden, refused.Code == string(wire.AdminDisabled):
			fmt.Fprintln(stderr, "batchfleet: the gateway's own workers are not shown: that needs its admin token")
			return nil, true, nil
		}
	}
	if err != nil {
		return nil, false, err
	}
	if count > len(list) {
		fmt.Fprintf(stderr, "batchfleet: the newest %d of the gateway's %d workers are shown\n", len(list), count)
	}
	return each(list, gatewayWorker), true, nil
}

// gatewayWorker is a worker of the gateway. One without a lease is registered, not idle: whether
// it lives is not known, nor what its kinds are.
func gatewayWorker(s wire.ServerInfo) workerRow {
	w := jobapi.Worker{ID: s.ServerID, Name: s.Name, Jobs: s.Leases, State: "registered"}
	switch {
	case s.Tokens == 0:
		w.State = "revoked" // or its token has ended, which comes to the same
	case s.Leases > 0:
		w.State = "working"
	}
	return workerRow{"zpe", w}
}

// revokedRow is how it is printed as JSON that a worker was revoked.
type revokedRow struct {
	Worker string `json:"workerId"`
	Tokens int    `json:"tokens"` // that were good until now
}

func workersRevokeCommand(c *connection) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "revoke WORKER…", Short: "End all tokens of a gateway's workers; their jobs run elsewhere",
		Args: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "") {
				return program.Exit(program.Usage, errors.New("worker id is empty"))
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: c.connected(needRedis, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if err := c.needsGateway(); err != nil {
				return err
			}
			for _, worker := range args {
				n, err := c.gateway().Revoke(ctx, worker)
				if err != nil {
					return err
				}
				if asJSON {
					if err := printJSON(cmd.OutOrStdout(), revokedRow{worker, n}); err != nil {
						return err
					}
					continue
				}
				did := "is revoked"
				if n == 0 {
					did = "had no good token any more"
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", oneLine(worker), did); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.flags(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func workersEnrollCommand(c *connection) *cobra.Command {
	var label, out string
	var ttl span
	cmd := &cobra.Command{
		Use: "enroll", Short: "Make a token that lets one worker register with the gateway", Args: cobra.NoArgs,
		Long: "Make a token that lets one worker register with the gateway, once: `batchfleet worker register` on the worker's machine\n" +
			"uses it up.",
		Example: "  batchfleet workers enroll --api http://127.0.0.1:8080 --token-file admin.token --out enroll.token",
		RunE: func(cmd *cobra.Command, args []string) error {
			if ttl.D() < time.Second || ttl.D() > 30*24*time.Hour {
				return program.Exit(program.Usage, fmt.Errorf("--ttl is %s: must be from 1s to 30d", ttl.D()))
			}
			return c.connected(needRedis, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
				if err := c.needsGateway(); err != nil {
					return err
				}
				give := func(to io.Writer) error {
					token, err := c.gateway().Enroll(ctx, label, ttl.D())
					if err == nil {
						_, err = fmt.Fprintln(to, oneLine(token))
					}
					return err
				}
				if out == "" {
					return give(cmd.OutOrStdout())
				}
				if err := writeNew(out, give); err != nil {
					return err
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "the token is in %s\n", oneLine(out))
				return err
			})(cmd, args)
		},
	}
	c.flags(cmd)
	ttl = span(time.Hour)
	cmd.Flags().StringVar(&label, "label", "", "what to call the token in the gateway's log")
	cmd.Flags().Var(&ttl, "ttl", "how long it is good, such as 10m or 7d")
	cmd.Flags().StringVar(&out, "out", "", "a new file for the token, which its owner alone may read; standard output when empty")
	return cmd
}

// needsGateway returns an error if the Redis of the environment cannot be a gateway's.
func (c *connection) needsGateway() error {
	if c.local != nil && !c.local.gateway {
		return program.Exit(program.Usage, fmt.Errorf("REDIS_URL: %w", errClusterGateway))
	}
	return nil
}

package cli

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/relay"
)

// relayJobsCommands are the common commands about jobs, for the tasks of a relay on this machine.
func relayJobsCommands() []*cobra.Command {
	return []*cobra.Command{
		ofRelay(listCommand, "list", "List tasks, newest first", "  batchfleet relay list --state failed"),
		ofRelay(getCommand, "show TASK…", "Show how a task stands, and its steps", "  batchfleet relay show task_01KDZ3NDEKTSV4RRFFQ69G5FAV"),
		ofRelay(logsCommand, "logs TASK", "Print what the program of a task has written", "  batchfleet relay logs task_01KDZ3NDEKTSV4RRFFQ69G5FAV"),
		ofRelay(cancelCommand, "cancel TASK…", "Stop tasks: queued ones at once, running ones within seconds", "  batchfleet relay cancel task_01KDZ3NDEKTSV4RRFFQ69G5FAV"),
		ofRelay(retryCommand, "retry-upload TASK…", "Upload what tasks have made once more, whose upload has failed", "  batchfleet relay retry-upload task_01KDZ3NDEKTSV4RRFFQ69G5FAV"),
		relayCollectCommand(),
	}
}

// Where the relay of this machine is, unless flags say otherwise.
const (
	relayAPI       = "http://127.0.0.1:8090"
	relayTokenFile = "relay.token"
)

// ofRelay makes one of the commands about jobs a command about tasks.
func ofRelay(make func(*connection) *cobra.Command, use, short, example string) *cobra.Command {
	return ofScope(relay.Scope, relayDefaults, make, use, short, example)
}

// ofScope makes one of the commands about jobs a command about those of one scope. defaults changes its flags.
func ofScope(scope string, defaults func(*cobra.Command), make func(*connection) *cobra.Command, use, short, example string) *cobra.Command {
	c := &connection{}
	cmd := make(c)
	cmd.Use, cmd.Short, cmd.Long, cmd.Example, cmd.Aliases = use, short, short+".", example, nil
	defaults(cmd)
	if f := cmd.Flags().Lookup("scope"); f != nil {
		f.Hidden = true
	}
	c.scope, c.group, c.usual = scope, scope+" ", []string{c.api, c.tokenFile}
	return cmd
}

func relayDefaults(cmd *cobra.Command) {
	for name, value := range map[string]string{"api": relayAPI, "token-file": relayTokenFile} {
		f := cmd.Flags().Lookup(name)
		f.Usage = map[string]string{"api": "address of the relay", "token-file": "file with the token of the relay; - for standard input"}[name]
		f.DefValue = value
		_ = f.Value.Set(value) // a string takes any
	}
}

// relayCollectCommand has a relay delete old tasks now.
func relayCollectCommand() *cobra.Command {
	c := &connection{scope: relay.Scope}
	var asJSON bool
	cmd := &cobra.Command{
		Use: "gc", Short: "Delete tasks that have ended and are older than --keep of the relay, or too many for its --max-bytes", Args: cobra.NoArgs,
		Example: "  batchfleet relay gc",
	}
	cmd.RunE = c.connected(needRedis, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		token, err := c.token(ctx, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		var done relay.Collected
		if err := c.CallOnce(ctx, http.MethodPost, "/v1/gc", nil, http.Header{relay.TokenHeader: {token}}, &done); err != nil {
			return fmt.Errorf("delete old tasks: %w", err)
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), done)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s deleted, %d bytes\n", jobs.Count(done.Tasks, "task"), done.Bytes)
		return err
	})
	c.flags(cmd)
	jsonFlag(cmd, &asJSON)
	relayDefaults(cmd)
	return cmd
}

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/pubsub"
)

// jobOperations are the operations of each scope. A newer server may have more:
// those are given with their scope.
var jobOperations = map[string][]string{
	"system": {"start", "drain", "fsck"},
	"utils":  {"submit-batch", "redrive", "purge", "cancel", "retry"},
}

func operationNames() []string {
	return slices.Concat(jobOperations["system"], jobOperations["utils"])
}

// hasFlags reports whether an operation is a command of its own, with flags for what others get by --data.
func hasFlags(operation string) bool { return operation == "cancel" || operation == "retry" }

func runCommand(c *connection) *cobra.Command {
	var data string
	var dryRun, watch, asJSON bool
	var timeout span
	cmd := &cobra.Command{
		Use:   "run OPERATION",
		Short: "Run an operation on the fleet: start, drain, fsck, submit-batch, redrive, purge, cancel or retry",
		Long: "Run an operation as a job: start (makes what a fleet needs, and lets workers lease), drain (no more leases) or fsck\n" +
			"of the fleet as a whole; submit-batch, redrive, purge, cancel or retry of many jobs. docs/operations.md says what each\n" +
			"does and which fields its --data has. cancel and retry have flags instead.\n\n" +
			"With --api the server runs it, and its id is printed. Without, this command runs it, and prints every change until it\n" +
			"has ended, as --watch does. submit-batch has succeeded when all its jobs have ended, however they did: its result says\n" +
			"how many failed.",
		Example: `  batchfleet run start
  batchfleet run start --dry-run
  batchfleet run drain --timeout 10m --api https://jobs.example.com --watch
  batchfleet run purge --data '{"olderThanDays":30}' --dry-run
  batchfleet run submit-batch --data @batch.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("want one operation: %s", operationsText())
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return slices.DeleteFunc(operationNames(), hasFlags), cobra.ShellCompDirectiveNoFileComp // cobra adds the others
		},
	}
	flags := cmd.Flags()
	c.flags(cmd)
	c.scopeFlag(cmd)
	flags.StringVar(&data, "data", "", "the request, an object in JSON, or @FILE with it; @- for standard input")
	flags.BoolVar(&dryRun, "dry-run", false, "only print what would be done")
	flags.BoolVar(&watch, "watch", false, "print every change until it ends; exit code 1 unless it succeeded")
	flags.Var(&timeout, "timeout", "how long the job may take, such as 10m or 600; the server's JOB_API_TIMEOUT when not given")
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		scope, operation, err := c.operation(args[0])
		if err != nil {
			return program.Exit(program.Usage, err)
		}
		if flags.Changed("timeout") && (timeout.D() < jobapi.MinTimeout || timeout.D() > jobapi.MaxTimeout) {
			return program.Exit(program.Usage, fmt.Errorf("--timeout is %s: must be from %s to %s", timeout.D(), jobapi.MinTimeout, jobapi.MaxTimeout))
		}
		if watch && dryRun {
			return program.Exit(program.Usage, errors.New("--dry-run makes no job to --watch"))
		}
		body, err := jobBody(cmd.Context(), data, timeout.D())
		if err != nil {
			return program.Mistake(cmd.Context(), fmt.Errorf("--data: %w", err))
		}
		c.scope = scope
		n := needFleet
		if operation == "fsck" || operation == "purge" {
			n = needResults
		}
		return c.connected(n, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			if c.local != nil && !c.local.fleet { // the operation would leave out all that it is for, and succeed
				if operation == "start" || operation == "drain" {
					return program.Exit(program.Usage, fmt.Errorf("GCP_PROJECT_ID is not set, so there is no fleet to %s: set it (local-dev with the emulator), or name a server with --api", operation))
				}
				fmt.Fprintln(cmd.ErrOrStderr(), "batchfleet: GCP_PROJECT_ID is not set: Pub/Sub and its jobs are left out")
			}
			return c.operate(ctx, cmd, scope, operation, body, operateFlags{dryRun, watch, asJSON})
		})(cmd, args)
	}
	for _, operation := range slices.DeleteFunc(operationNames(), func(name string) bool { return !hasFlags(name) }) {
		cmd.AddCommand(bulkCommand(&connection{old: c.old}, operation))
	}
	return cmd
}

// operateFlags say how an operation is run.
type operateFlags struct{ dryRun, watch, asJSON bool }

// operate runs an operation, or prints what it would do.
func (c *connection) operate(ctx context.Context, cmd *cobra.Command, scope, operation string, body json.RawMessage, f operateFlags) error {
	out := cmd.OutOrStdout()
	if f.dryRun {
		plan, err := c.Plan(ctx, scope, operation, body)
		if err != nil {
			return err
		}
		return printRows(out, f.asJSON, plan, []any{"STEP", "ACTION", "REASON"}, func(p jobapi.Planned) []any { return []any{p.Step, p.Action, p.Reason} })
	}
	made, err := c.Create(ctx, scope, operation, body)
	if err != nil {
		return err
	}
	if f.watch || c.local != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), oneLine(made.ID))
		return c.watchOperation(ctx, out, scope, made.ID, f.asJSON)
	}
	if f.asJSON {
		return printJSON(out, made)
	}
	_, err = fmt.Fprintln(out, oneLine(made.ID))
	return err
}

// watchOperation watches an operation, and prints its result: one that this process runs is
// forgotten when it ends.
func (c *connection) watchOperation(ctx context.Context, out io.Writer, scope, id string, asJSON bool) error {
	last, err := c.watch(ctx, out, scope, id, asJSON, func(jobapi.Job) {})
	if result := jsonObject(last.Result); result != "" && !asJSON {
		fmt.Fprintf(out, "result  %s\n", oneLine(result))
	}
	if c.local != nil && last.Error != nil && last.Error.Code == engine.CodeUpstream { // this command could not reach it
		if away := pubsub.ErrUnreachable.Error(); strings.Contains(last.Error.Message, away) && !strings.Contains(err.Error(), away) {
			err = fmt.Errorf("%w: %w", err, pubsub.ErrUnreachable)
		}
		return program.Exit(program.Unavailable, err)
	}
	return err
}

// operation understands fsck, system.fsck and system/fsck.
func (c *connection) operation(name string) (scope, operation string, err error) {
	scope, operation, named := strings.Cut(strings.Replace(name, "/", ".", 1), ".")
	if !named {
		scope, operation = c.scope, name
		for s, operations := range jobOperations {
			if slices.Contains(operations, name) {
				scope = s
			}
		}
	}
	if _, ok := jobOperations[scope]; !ok || operation == "" || strings.Trim(operation, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return "", "", fmt.Errorf("%.60q is no operation: want %s", name, operationsText())
	}
	if c.scope != "" && c.scope != scope {
		return "", "", fmt.Errorf("--scope is %s, but %s is of scope %s", c.scope, operation, scope)
	}
	return scope, operation, nil
}

func operationsText() string {
	return strings.Join(jobOperations["system"], ", ") + " of system, or " + strings.Join(jobOperations["utils"], ", ") + " of utils"
}

// maxJobData is how many bytes of data are read: more than any server takes.
const maxJobData = 8 << 20

// jobBody returns the body of a request.
func jobBody(ctx context.Context, data string, timeout time.Duration) (json.RawMessage, error) {
	text := []byte(data)
	if file, ok := strings.CutPrefix(data, "@"); ok {
		var err error
		if text, err = readData(ctx, file); err != nil {
			return nil, err
		}
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 && timeout == 0 {
		return nil, nil
	}
	if len(text) == 0 {
		text = []byte("{}")
	}
	var fields map[string]json.RawMessage
	if text[0] != '{' || json.Unmarshal(text, &fields) != nil {
		return nil, errors.New(`want an object in JSON, such as {"olderThanDays":30}`)
	}
	if _, ok := fields["dryRun"]; ok {
		return nil, errors.New("it has dryRun: give --dry-run instead")
	}
	if timeout == 0 {
		return text, nil // unchanged: the server checks it
	}
	if _, ok := fields["timeoutMs"]; ok {
		return nil, errors.New("it has timeoutMs already: leave out --timeout")
	}
	fields["timeoutMs"] = fmt.Append(nil, timeout.Milliseconds())
	return json.Marshal(fields)
}

func readData(ctx context.Context, file string) ([]byte, error) {
	var f io.ReadCloser
	if file == "-" {
		f = program.Stdin(ctx)
	} else {
		var err error
		if f, err = os.Open(file); err != nil {
			return nil, err
		}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxJobData+1))
	if err == nil && len(text) > maxJobData {
		err = fmt.Errorf("%s is longer than %d bytes", file, maxJobData)
	}
	return text, err
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
)

// bulkFlags are the flags of the operations that act on all jobs that match.
type bulkFlags struct {
	operateFlags
	match          matchFlags
	state, kind    string
	all            bool
	rate           float64
	max, stopAfter int
	timeout        span
}

// bulkCommand is `run cancel` or `run retry`.
func bulkCommand(c *connection, operation string) *cobra.Command {
	var f bulkFlags
	cmd := &cobra.Command{Use: operation, Args: cobra.NoArgs}
	switch operation {
	case "cancel":
		cmd.Short = "Cancel all jobs that match"
		cmd.Long = "Cancel all jobs of a scope that match: queued ones first, newest first. Jobs that are submitted after the start of the\n" +
			"command are left alone. docs/operations.md says more."
		cmd.Example = "  batchfleet run cancel --scope fleet --kind pdf --since 24h --dry-run\n  batchfleet run cancel --scope fleet --worker worker-7"
	case "retry":
		cmd.Short = "Run all failed jobs again that match"
		cmd.Long = "Run all failed jobs of a scope again that match, newest first, at a bearable pace. It stops after repeated errors, also\n" +
			"when the jobs fail again. docs/operations.md says more."
		cmd.Example = "  batchfleet run retry --scope fleet --text 'no space left' --dry-run\n  batchfleet run retry --scope fleet --error 0123456789abcdef --max 100 --rate 5"
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body, err := f.body(c.scope, operation)
		if err != nil {
			return program.Exit(program.Usage, err)
		}
		n := needRedis
		if operation == "retry" {
			n = needFleet
		}
		return c.connected(n, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			return c.operate(ctx, cmd, "utils", operation, body, f.operateFlags)
		})(cmd, args)
	}
	f.register(cmd, c, operation)
	return cmd
}

func (f *bulkFlags) register(cmd *cobra.Command, c *connection, operation string) {
	flags := cmd.Flags()
	c.flags(cmd)
	flags.StringVar(&c.scope, "scope", "", "whose jobs: fleet (Pub/Sub workers), gateway (a gateway's agents), zpe (their calculations), relay or grid")
	complete(cmd, "scope", words("fleet", "gateway", "zpe", "relay", "grid"))
	if operation == "cancel" {
		flags.StringVar(&f.state, "state", "", "only jobs that are queued, or only those that are running")
		complete(cmd, "state", words("queued", "running"))
	}
	flags.StringVar(&f.kind, "kind", "", "only jobs of this kind")
	completeWith(cmd, "kind", c.completeKinds)
	f.match.register(cmd, c)
	flags.BoolVar(&f.all, "all", false, "all jobs of the scope: needed when nothing else says which")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only count the jobs, and name the newest")
	flags.Float64Var(&f.rate, "rate", 50, "jobs a second, at most")
	flags.IntVar(&f.max, "max", 1_000_000, "how many jobs, at most")
	flags.IntVar(&f.stopAfter, "stop-after-errors", 20, "stop once so many errors came in a row")
	flags.BoolVar(&f.watch, "watch", false, "print every change until it ends; exit code 1 unless it succeeded")
	flags.Var(&f.timeout, "timeout", "how long it may take, such as 10m or 600; the server's JOB_API_TIMEOUT when not given")
	jsonFlag(cmd, &f.asJSON)
}

// body returns the request.
func (f *bulkFlags) body(scope, operation string) (json.RawMessage, error) {
	switch {
	case scope == "":
		return nil, fmt.Errorf("--scope is needed: whose jobs `batchfleet run %s` is to act on, such as fleet", operation)
	case !keepers[scope]:
		return nil, fmt.Errorf("--scope is %.40q: want fleet, gateway, zpe, relay or grid", scope)
	case f.watch && f.dryRun:
		return nil, errors.New("--dry-run makes no job to --watch")
	case !(f.rate >= 0.01 && f.rate <= 1000):
		return nil, fmt.Errorf("--rate is %g: must be from 0.01 to 1000", f.rate)
	case f.max < 1 || f.max > 1_000_000:
		return nil, fmt.Errorf("--max is %d: must be from 1 to 1000000", f.max)
	case f.stopAfter < 1 || f.stopAfter > 1000:
		return nil, fmt.Errorf("--stop-after-errors is %d: must be from 1 to 1000", f.stopAfter)
	case f.timeout != 0 && (f.timeout.D() < jobapi.MinTimeout || f.timeout.D() > jobapi.MaxTimeout):
		return nil, fmt.Errorf("--timeout is %s: must be from %s to %s", f.timeout.D(), jobapi.MinTimeout, jobapi.MaxTimeout)
	case f.all && (f.match.given() || f.state != "" || f.kind != ""):
		return nil, errors.New("--all is for all jobs of the scope: leave it out, or the flags that select some")
	case !f.all && !f.match.given() && f.state == "" && f.kind == "":
		return nil, fmt.Errorf("nothing says which jobs: give --kind, --worker, --id-prefix, --error, --since, --until or --text, or --all for all jobs of %s", scope)
	}
	if err := f.match.check(); err != nil {
		return nil, err
	}
	since, until, err := f.match.times(time.Now())
	if err != nil {
		return nil, err
	}
	state := ""
	if f.state != "" {
		parsed, err := parseState(f.state)
		if err != nil || parsed.Terminal() {
			return nil, fmt.Errorf("--state is %.40q: want queued or running: other jobs have ended", f.state)
		}
		state = parsed.String()
	}
	kind, err := kindIn(scope, f.kind)
	if err != nil {
		return nil, err
	}
	request := map[string]any{
		"scope": scope, "status": state, "kind": kind, "worker": f.match.worker, "id_prefix": f.match.idPrefix, "error": f.match.fingerprint,
		"since": wireTime(since), "until": wireTime(until), "q": f.match.text,
	}
	for name, value := range request {
		if value == "" {
			delete(request, name)
		}
	}
	if f.all {
		request["all"] = true
	}
	request["ratePerSecond"], request["maxJobs"], request["stopAfterErrors"] = f.rate, f.max, f.stopAfter
	if f.timeout != 0 {
		request["timeoutMs"] = f.timeout.D().Milliseconds()
	}
	return json.Marshal(request)
}

// kindIn returns a kind as the scope calls it.
func kindIn(scope, kind string) (string, error) {
	if kind == zpeKind && scope == "zpe" {
		return "calc", nil
	}
	if other, plain, ok := strings.Cut(kind, "."); ok && keepers[other] {
		if other != scope {
			return "", fmt.Errorf("--kind is %.60q, and --scope is %s", kind, scope)
		}
		kind = plain
	}
	if kind != "" && !idBeginning().MatchString(kind) {
		return "", fmt.Errorf("--kind is %.40q: want a kind, such as pdf", kind)
	}
	return kind, nil
}

func wireTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

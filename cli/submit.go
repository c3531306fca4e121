package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/trace"
)

// submitFlags are the flags of batchfleet submit.
type submitFlags struct {
	wait, asJSON bool
	kind, scope  string
	timeout      span
	dir          string // where results are put
	asked        asked
	later        later
}

func submitCommand(c *connection) *cobra.Command {
	var f submitFlags
	cmd := &cobra.Command{
		Use:   "submit [FILE…]",
		Short: "Queue a job for each file, or one with other input or none",
		Long: "Queue a job for each file, or one with --input or without input, and print its id. A file is put into the storage and\n" +
			"its job into Pub/Sub, which the environment names. With --kind zpe each file holds what a calculation is asked for, in\n" +
			"JSON, and its job goes to the gateway: through --api, or directly into its Redis. With --scope gateway so do jobs of\n" +
			"the kinds of its kinds file, and files are uploaded to it.\n\n" +
			"The parameters of a job are checked by the kinds file, if that has its kind. Through --api jobs of the fleet have no\n" +
			"input, or objects of its storage. With --idempotency-key the same command can be run again: it prints the id of the\n" +
			"same job, and queues it once. The key is good until 24 h after the last change of its job.",
		Example: `  batchfleet submit --wait *.pdf
  batchfleet submit --kind thumbnail --param dpi=300 --wait -o thumbnails report.pdf
  batchfleet submit --kind merge --input a.pdf --input b.pdf
  batchfleet submit --kind report --params month.json --idempotency-key report-2026-11
  batchfleet submit --kind report --in 12h
  batchfleet submit --scope gateway --kind thumbnail --param dpi=300 --wait -o thumbnails report.pdf
  batchfleet submit --kind zpe --api https://jobs.example.com --token-file client.token h2.json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, files []string) error {
			f.scope = c.scope
			cmd.SetContext(trace.With(cmd.Context(), os.Getenv("TRACEPARENT"))) // of a program that was given it, as our jobs are
			if err := f.check(cmd, files); err != nil {
				return program.Exit(program.Usage, err)
			}
			if err := checkFiles(files); err != nil {
				return err
			}
			if c.address() == "" && (c.tokenFile != "" || c.caFile != "") {
				return program.Exit(program.Usage, errNoServer)
			}
			switch f.scope {
			case gatewayScope:
				return f.submitToGateway(c, cmd, files)
			case zpeScope:
				return c.connected(needRedis, func(ctx context.Context, cmd *cobra.Command, files []string) error {
					return c.submitPayloads(ctx, files, f, cmd.OutOrStdout(), cmd.ErrOrStderr())
				})(cmd, files)
			}
			return f.submitJobs(c, cmd, files)
		},
	}
	c.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&c.scope, "scope", "", "whose jobs: fleet (Pub/Sub workers), gateway (a gateway's agents: kinds of its kinds file, to which FILE or --input is uploaded) or zpe; fleet when empty, zpe for --kind zpe")
	complete(cmd, "scope", words(fleetScope, gatewayScope, zpeScope))
	flags.BoolVar(&f.wait, "wait", false, "wait until all jobs have ended, and print how; exit code 1 unless all succeeded")
	jsonFlag(cmd, &f.asJSON)
	flags.StringVar(&f.kind, "kind", "", "what to do: pdf, mock, zpe, or a kind of the kinds file; the workers' default when empty")
	flags.Var(&f.timeout, "timeout", "with --wait: give up after so long, such as 90s or 10m; the jobs go on")
	flags.StringVarP(&f.dir, "output", "o", "", "with --wait: put what each job that has succeeded has made into this directory, of several jobs into one for each")
	f.asked.flags(flags)
	f.later.flags(flags)
	complete(cmd, "kind", words(knownKinds...))
	return cmd
}

// check finds mistakes in the flags.
func (f *submitFlags) check(cmd *cobra.Command, files []string) error {
	changed := cmd.Flags().Changed
	switch {
	case f.kind != "" && !pubsub.ValidKind(f.kind):
		return fmt.Errorf("--kind is %q: want lower-case letters, digits and -, such as pdf, mock or zpe", f.kind)
	case changed("timeout") && !f.wait:
		return errors.New("--timeout is for how long to --wait")
	case changed("timeout") && f.timeout.D() < time.Second:
		return fmt.Errorf("--timeout is %s: must be 1s or more", f.timeout.D())
	case f.dir != "" && !f.wait:
		return errors.New("-o is for what jobs have made, when they have ended: give --wait, too; later `batchfleet result -o` fetches it")
	}
	if err := f.useOnlyKind(); err != nil {
		return err
	}
	if err := f.checkScope(); err != nil {
		return err
	}
	at, err := f.later.notBefore(time.Now())
	if err != nil {
		return err
	}
	if !at.IsZero() && f.scope != fleetScope {
		return errors.New("--in and --at are for jobs of the fleet: a gateway's jobs start as soon as a worker is free")
	}
	if f.scope == zpeScope && (f.asked.any() || len(files) == 0) {
		return errors.New("what a job of kind zpe is asked for is in its FILE: it has no other input, no parameters and no id of yours")
	}
	return f.asked.check(cmd, f.kind, files)
}

// useOnlyKind takes the kind of --kinds if no kind is named: who names the file means no built-in one.
func (f *submitFlags) useOnlyKind() error {
	if f.kind != "" || f.asked.kindsFile == "" {
		return nil
	}
	set, err := f.asked.readKinds()
	if err != nil {
		return err
	}
	if len(set.Kinds) != 1 {
		return severalKinds(f.asked.kindsFile, set, "this job")
	}
	f.kind = string(set.Kinds[0].Name)
	return nil
}

// checkScope finds out whose jobs they are.
func (f *submitFlags) checkScope() error {
	switch builtIn := f.kind == "" || slices.Contains(knownKinds, f.kind); {
	case f.scope == "" && f.kind == zpeKind:
		f.scope = zpeScope
	case f.scope == "":
		f.scope = fleetScope
	case f.scope != fleetScope && f.scope != gatewayScope && f.scope != zpeScope:
		return fmt.Errorf("--scope is %.40q: want fleet, gateway or zpe", f.scope)
	case f.scope == gatewayScope && f.kind == "":
		return errors.New("--kind is missing: jobs of scope gateway are of a kind of its kinds file")
	case f.scope == gatewayScope && builtIn:
		return fmt.Errorf("--kind is %q: jobs of scope gateway are of a kind of its kinds file", f.kind)
	case f.scope == zpeScope && f.kind == "":
		f.kind = zpeKind
	case (f.scope == zpeScope) != (f.kind == zpeKind):
		return fmt.Errorf("--kind is %q, and --scope %s: kind zpe is scope zpe", f.kind, f.scope)
	case f.scope == gatewayScope && f.asked.id != "":
		return errors.New("--id is for jobs of the fleet: a gateway makes the ids of its jobs")
	}
	return nil
}

// waiting returns a context for --wait, and what the error is if its time is over, or the command was
// interrupted. flags are those that name the server of the jobs.
func (f *submitFlags) waiting(ctx context.Context, sent []submitted, flags string) (limited context.Context, cancel context.CancelFunc, over func(error) error) {
	timeout := f.timeout.D()
	if timeout == 0 {
		timeout = math.MaxInt64
	}
	limited, cancel = context.WithTimeout(ctx, timeout)
	ids := each(sent, func(s submitted) string { return string(s.ID) })
	return limited, cancel, func(err error) error {
		if errors.Is(err, context.DeadlineExceeded) && limited.Err() != nil && ctx.Err() == nil {
			return program.Exit(program.Failed, fmt.Errorf("gave up waiting after %s; %s", timeout, goingOn("", flags, ids...)))
		}
		return interrupted(ctx, err, "", flags, ids...)
	}
}

func printSubmitted(out io.Writer, sent []submitted, asJSON bool) error {
	return printRows(out, asJSON, sent, nil, func(s submitted) []any { return []any{s.ID} })
}

// submitPayloads queues a job of the gateway for each file.
func (c *connection) submitPayloads(ctx context.Context, files []string, f submitFlags, out, stderr io.Writer) error {
	if err := c.needsGateway(); err != nil {
		return err
	}
	if f.wait {
		if err := c.mayFollow(ctx, zpeKind); err != nil {
			return err
		}
	}
	var sent []submitted
	var failed error
	for _, file := range files {
		payload, err := readPayload(file)
		if err == nil {
			var id string
			if id, err = c.gateway().Submit(ctx, payload); err == nil {
				sent = append(sent, submitted{jobs.ID(id), file})
				continue
			}
		}
		failed = fmt.Errorf("submit %s: %w", file, err)
		break
	}
	if !f.wait || failed != nil {
		return errors.Join(printSubmitted(out, sent, f.asJSON), failed)
	}
	return c.waitForAll(ctx, sent, zpeScope, zpeKind, f, out, stderr)
}

// waitForAll waits for jobs of a scope, prints how they ended, and fetches what they have made if that is asked for.
func (c *connection) waitForAll(ctx context.Context, sent []submitted, scope, kind string, f submitFlags, out, stderr io.Writer) error {
	waiting, cancel, over := f.waiting(ctx, sent, c.given())
	defer cancel()
	_, jobType := typeOf(cmp.Or(kind, string(status.UnknownKind)))
	if scope == gatewayScope {
		jobType = scope + "." + kind
	}
	var rows []endedJob
	var lost error
	var begun atomic.Bool // a job has been seen that is not queued
	noted := c.noteQueued(waiting, stderr, scope, jobs.Kind(kind), func() bool { return !begun.Load() })
	for _, s := range sent {
		j := unknownJob(scope, jobType, s.ID) // what is said of one that could not be followed
		if lost == nil {
			var last jobapi.Job
			last, lost = c.follow(waiting, scope, string(s.ID), func(j jobapi.Job) error {
				begun.CompareAndSwap(false, j.Status != jobs.Queued)
				return nil
			})
			if last.ID != "" {
				j = last
			}
		}
		rows = append(rows, endedJob{s.File, j})
	}
	noted()
	if err := (*StorageEnv)(nil).printEnded(out, rows, f.asJSON); err != nil {
		return err
	}
	if err := c.saveAll(ctx, rows, f, out); err != nil {
		return err
	}
	if lost != nil {
		return over(lost)
	}
	return unsuccessful(rows)
}

// saveAll puts what jobs have made into the directory that was asked for: each into one of its own if there are several.
func (c *connection) saveAll(ctx context.Context, rows []endedJob, f submitFlags, out io.Writer) error {
	if f.dir == "" {
		return nil
	}
	if f.asJSON {
		out = io.Discard // one object a line: those of the jobs
	}
	for _, r := range rows {
		if r.Status != jobs.Succeeded {
			continue
		}
		dir := f.dir
		if len(rows) > 1 {
			dir = filepath.Join(dir, r.ID)
		}
		files, err := c.Artifacts(ctx, r.Scope, r.ID)
		if err != nil {
			return err
		}
		if err := c.save(ctx, r.Job, files, dir, out, false); err != nil {
			return err
		}
	}
	return nil
}

// mayFollow returns an error if the server lets this caller submit jobs, perhaps, but not follow
// them: a gateway's client token is none of its Job API.
func (c *connection) mayFollow(ctx context.Context, scope string) error {
	_, err := c.List(ctx, scope, jobapi.Query{Limit: 1})
	refused, ok := errors.AsType[*jobapi.Refusal](err)
	if ok && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden) {
		return program.Exit(program.Usage, fmt.Errorf("--wait looks at jobs through the Job API, which refuses this caller (%s), so nothing was queued: leave out --wait, "+
			"or give with --token-file the gateway's admin token, or where submission is open a token of scope read", refused.Message))
	}
	return err
}

func readPayload(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	payload, err := io.ReadAll(io.LimitReader(f, wire.MaxPayload+1))
	if err == nil && len(payload) > wire.MaxPayload {
		err = program.Exit(program.Usage, fmt.Errorf("it is longer than %d bytes", wire.MaxPayload))
	}
	return payload, err
}

// checkFiles finds mistakes before anything is stored.
func checkFiles(files []string) error {
	var wrong []error
	for _, name := range files {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case !info.Mode().IsRegular():
			wrong = append(wrong, fmt.Errorf("%s is not a regular file", name))
		}
	}
	if wrong != nil {
		return program.Exit(program.Usage, errors.Join(wrong...))
	}
	return nil
}

// submitted is a job and the file it was made from.
type submitted struct {
	ID   jobs.ID `json:"jobId"`
	File string  `json:"file"` // or object; empty for none
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
)

// submitFlags are the flags of batchfleet submit.
type submitFlags struct {
	wait, asJSON bool
	kind         string
	timeout      span
}

func submitCommand(c *connection) *cobra.Command {
	var f submitFlags
	cmd := &cobra.Command{
		Use:   "submit FILE…",
		Short: "Queue a job for each file",
		Long: "Queue a job for each file, and print its id. A document is put into the storage and its job into Pub/Sub, which the\n" +
			"environment names. With --kind zpe each file holds what a calculation is asked for, in JSON, and its job goes to the\n" +
			"gateway: through --api, or directly into its Redis.",
		Example: `  batchfleet submit --wait *.pdf
  batchfleet submit --kind zpe --api https://jobs.example.com --token-file client.token h2.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			if f.kind != "" && !pubsub.ValidKind(f.kind) {
				return program.Exit(program.Usage, fmt.Errorf("--kind is %q: want lower-case letters, digits and -, such as pdf, mock or zpe", f.kind))
			}
			if changed := cmd.Flags().Changed("timeout"); changed && !f.wait {
				return program.Exit(program.Usage, errors.New("--timeout is for how long to --wait"))
			} else if changed && f.timeout.D() < time.Second {
				return program.Exit(program.Usage, fmt.Errorf("--timeout is %s: must be 1s or more", f.timeout.D()))
			}
			if err := checkFiles(files); err != nil {
				return err
			}
			if c.address() == "" && (c.tokenFile != "" || c.caFile != "") {
				return program.Exit(program.Usage, errNoServer)
			}
			switch {
			case f.kind == zpeKind:
				return c.connected(needRedis, func(ctx context.Context, cmd *cobra.Command, files []string) error {
					return c.submitPayloads(ctx, files, f, cmd.OutOrStdout(), cmd.ErrOrStderr())
				})(cmd, files)
			case c.address() != "":
				return program.Exit(program.Usage, errors.New("through a server only jobs of --kind zpe are submitted: leave out --api (or BATCHFLEET_API) to submit documents where their storage is, "+
					"or name objects of the storage to `batchfleet run submit-batch`"))
			}
			return settings.With(f.submitDocuments)(cmd, files)
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until all jobs have ended, and print how; exit code 1 unless all succeeded")
	jsonFlag(cmd, &f.asJSON)
	cmd.Flags().StringVar(&f.kind, "kind", "", "what to do with the files: pdf, mock or zpe; the workers' default when empty")
	cmd.Flags().Var(&f.timeout, "timeout", "with --wait: give up after so long, such as 90s or 10m; the jobs go on")
	complete(cmd, "kind", words(knownKinds...))
	return cmd
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
			return program.Exit(program.Failed, fmt.Errorf("gave up waiting after %s; %s", timeout, goingOn(flags, ids...)))
		}
		return interrupted(ctx, err, flags, ids...)
	}
}

func printSubmitted(out io.Writer, sent []submitted, asJSON bool) error {
	return printRows(out, asJSON, sent, nil, func(s submitted) []any { return []any{s.ID} })
}

// submitDocuments stores files and queues a job for each.
func (f *submitFlags) submitDocuments(cmd *cobra.Command, env *ClientEnv, files []string) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	s, closer, err := env.openSubmitter(ctx)
	if err != nil {
		return err
	}
	defer closer.Close()
	if err := errors.Join(env.checkTopic(ctx), s.checkKind(ctx, f.kind)); err != nil {
		return err
	}
	sent, err := s.submit(ctx, files, jobs.Kind(f.kind))
	if err == nil {
		noteNoKind(ctx, cmd.ErrOrStderr(), s.status, jobs.Kind(f.kind))
	}
	if !f.wait || err != nil {
		return errors.Join(printSubmitted(out, sent, f.asJSON), err)
	}
	waiting, cancel, over := f.waiting(ctx, sent, "")
	defer cancel()
	return over(env.waitFor(waiting, s.status, sent, jobs.Kind(f.kind), out, f.asJSON))
}

// submitPayloads queues a job of the gateway for each file.
func (c *connection) submitPayloads(ctx context.Context, files []string, f submitFlags, out, stderr io.Writer) error {
	if err := c.needsGateway(); err != nil {
		return err
	}
	if f.wait {
		if err := c.mayFollow(ctx); err != nil {
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
	waiting, cancel, over := f.waiting(ctx, sent, c.given())
	defer cancel()
	var rows []endedJob
	var lost error
	var begun atomic.Bool // a job has been seen that is not queued
	noted := c.noteQueued(waiting, stderr, "zpe", zpeKind, func() bool { return !begun.Load() })
	for _, s := range sent {
		j := unknownJob("zpe", "zpe.calc", s.ID) // what is said of one that could not be followed
		if lost == nil {
			var last jobapi.Job
			last, lost = c.follow(waiting, "zpe", string(s.ID), func(j jobapi.Job) error {
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
	if lost != nil {
		return over(lost)
	}
	return unsuccessful(rows)
}

// mayFollow returns an error if the server lets this caller submit jobs, perhaps, but not follow
// them: a gateway's client token is none of its Job API.
func (c *connection) mayFollow(ctx context.Context) error {
	_, err := c.List(ctx, zpeKind, jobapi.Query{Limit: 1})
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
	File string  `json:"file"`
}

// submitter does what a frontend does: store, record, publish.
type submitter struct {
	store   storage.Store
	status  *status.Store
	publish func(context.Context, jobs.Job) (string, error)
}

func (e *ClientEnv) openSubmitter(ctx context.Context) (*submitter, closers, error) {
	pub, err := e.openPublisher(ctx)
	if err != nil {
		return nil, nil, err
	}
	store, err := e.openStorage(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, pub.Close())
	}
	st, redis := e.openStatus(0)
	return &submitter{store: store, status: st, publish: pub.Publish}, closers{pub, redis}, nil
}

// checkKind returns an error for a kind that neither this program nor a worker of the last hour
// knows: its job would wait, and fail after KIND_TIMEOUT.
func (s *submitter) checkKind(ctx context.Context, kind string) error {
	if kind == "" || slices.Contains(knownKinds, kind) {
		return nil
	}
	workers, err := s.status.Workers(ctx)
	if err != nil {
		return err
	}
	known := slices.Clone(knownKinds)
	for _, w := range workers {
		for _, k := range w.Kinds {
			if string(k) == kind {
				return nil
			}
			if !slices.Contains(known, string(k)) {
				known = append(known, string(k))
			}
		}
	}
	return program.Exit(program.Usage, fmt.Errorf("--kind is %q, which no worker runs: want %s", kind, strings.Join(known, ", ")))
}

// checkTopic returns an error if nobody would get a message: a topic without a subscription
// keeps none.
func (e *PubSubEnv) checkTopic(ctx context.Context) error {
	admin, err := pubsub.OpenAdmin(ctx, e.connection()...)
	if err != nil {
		return err
	}
	defer admin.Close()
	topic := e.names().topic.full
	found, err := admin.HasSubscription(ctx, topic) // Hidden: whoever submits need not be allowed to look
	if err == nil && found == pubsub.Absent {
		return program.Exit(program.Usage, fmt.Errorf("%s has no subscription, so its messages, and with them the jobs, would be lost; `batchfleet run start` makes what a fleet needs", topic))
	}
	return e.refused(err, "topic", "PUBSUB_TOPIC")
}

// submit queues a job for each file and returns those it has queued, also when
// it fails halfway.
func (s *submitter) submit(ctx context.Context, files []string, kind jobs.Kind) (sent []submitted, err error) {
	for _, file := range files {
		id := jobs.ID(ulid.Make().String())
		if err := s.one(ctx, id, file, kind); err != nil {
			return sent, fmt.Errorf("submit %s: %w", file, err)
		}
		sent = append(sent, submitted{id, file})
	}
	return sent, nil
}

func (s *submitter) one(ctx context.Context, id jobs.ID, file string, kind jobs.Kind) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	job := jobs.Job{ID: id, Kind: kind, Input: inputName(id, file), Submitted: time.Now()}
	if err := s.store.Put(ctx, job.Input, f); err != nil {
		return err
	}
	return pubsub.Submit(ctx, s.status, s.publish, job, 0) // whoever has typed this is waiting
}

// inputName is where the fleet keeps the input of a job.
func inputName(id jobs.ID, file string) string {
	name := "uploads/" + string(id) + "/" + filepath.Base(file)
	if storage.ValidName(name) != nil {
		return "uploads/" + string(id) + "/document" + filepath.Ext(file)
	}
	return name
}

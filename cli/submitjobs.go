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

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/pubsub/provider"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
)

// submitJobs queues jobs of the fleet: through a server, or directly.
func (f *submitFlags) submitJobs(c *connection, cmd *cobra.Command, files []string) error {
	ctx := cmd.Context()
	if c.address() != "" && len(files) > 0 {
		return program.Exit(program.Usage, errors.New("through a server jobs of the fleet get no files: leave out --api (or BATCHFLEET_API) to submit them where their storage is, "+
			"or name with --kind and --input an object of that storage, or many objects to `batchfleet run submit-batch`; with --scope gateway the gateway's own workers get them"))
	}
	if c.address() != "" && (f.kind == "" || slices.Contains(f.asked.input, "-")) {
		return program.Exit(program.Usage, errors.New("through a server a job of the fleet needs --kind, and its --input is an object of the server's storage"))
	}
	set, err := f.asked.readKinds()
	if err != nil {
		return err
	}
	var kind *kinds.Kind
	if set != nil {
		kind = set.Get(jobs.Kind(f.kind))
	}
	params, err := f.asked.paramsOf(ctx, kind)
	if err != nil {
		return err
	}
	at, err := f.later.notBefore(time.Now())
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	s := jobapi.Submission{Kind: f.kind, Params: params, ID: f.asked.id, Key: f.asked.idempotency, NotBefore: at}
	if kind != nil { // what is wrong is said before anything is stored, or sent
		checked := s
		if checked.Inputs = f.asked.input; len(files) > 0 {
			checked.Inputs = files[:1]
		}
		if _, err := provider.CheckKind(kind, checked); err != nil {
			return flagged(err)
		}
	}
	if c.address() != "" {
		s.Inputs = f.asked.input
		return c.connected(needFleet, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			return c.submitThrough(ctx, s, *f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		})(cmd, nil)
	}
	return settings.With(func(cmd *cobra.Command, env *ClientEnv, files []string) error {
		return flagged(f.submitHere(c, cmd, env, set, s, files))
	})(cmd, files)
}

// submitThrough gives a job to a server.
func (c *connection) submitThrough(ctx context.Context, s jobapi.Submission, f submitFlags, out, stderr io.Writer) error {
	if f.wait {
		if err := c.mayFollow(ctx, fleetScope); err != nil {
			return err
		}
	}
	j, err := c.Submit(ctx, fleetScope, s)
	if err != nil {
		return flagged(err)
	}
	sent := []submitted{{jobs.ID(j.ID), label(s.Inputs)}}
	if !f.wait {
		return printSubmitted(out, sent, f.asJSON)
	}
	return c.waitForAll(ctx, sent, fleetScope, s.Kind, f, out, stderr)
}

const (
	fleetScope   = "fleet"
	gatewayScope = "gateway"
	zpeScope     = "zpe"
)

// submitHere stores the input of jobs and queues them.
func (f *submitFlags) submitHere(c *connection, cmd *cobra.Command, env *ClientEnv, set *kinds.Set, s jobapi.Submission, files []string) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	inputs, err := f.asked.inputs(files)
	if err != nil {
		return err
	}
	sub, closer, err := env.openSubmitter(ctx)
	if err != nil {
		return err
	}
	defer closer.Close()
	if err := env.reach(ctx, sub.redis); err != nil { // before anything is stored
		return cmp.Or(env.checkTopic(ctx), err)
	}
	sub.fleet.KindsFile = func() *kinds.Set { return set }
	check := s
	check.Inputs = inputs[0].expected()
	if err := errors.Join(env.checkTopic(ctx), sub.fleet.Check(ctx, check)); err != nil {
		return err
	}
	sent, err := sub.all(ctx, inputs, s)
	if err == nil {
		noteNoKind(ctx, cmd.ErrOrStderr(), sub.fleet.Status, jobs.Kind(f.kind))
	}
	if !f.wait || err != nil {
		return errors.Join(printSubmitted(out, sent, f.asJSON), err)
	}
	waiting, cancel, over := f.waiting(ctx, sent, "")
	defer cancel()
	rows, waited := env.waitFor(waiting, sub.fleet.Status, sent, jobs.Kind(f.kind), out, f.asJSON)
	if f.dir != "" && rows != nil {
		if err := f.saveHere(ctx, c, rows, out, cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	return over(waited)
}

// saveHere is saveAll, with a server in this process.
func (f *submitFlags) saveHere(ctx context.Context, c *connection, rows []endedJob, out, stderr io.Writer) error {
	if err := c.open(ctx, needResults, stderr); err != nil {
		return err
	}
	defer c.close()
	return c.coded(ctx, c.saveAll(ctx, rows, *f, out))
}

// flagged says what a submission lacks in the words of the flags.
func flagged(err error) error {
	names := map[string]string{"kind": "--kind", "input": "--input", "inputs": "--input", "id": "--id", "params": "--params", "notBefore": "--at", jobapi.HeaderIdempotencyKey: "--idempotency-key"}
	if field, ok := errors.AsType[*jobapi.FieldError](err); ok && names[field.Field] != "" {
		return program.Exit(program.Usage, fmt.Errorf("%s: %s", names[field.Field], field.Problem))
	}
	refused, ok := errors.AsType[*jobapi.Refusal](err)
	if !ok || errors.Is(err, jobs.ErrUnavailable) {
		return err
	}
	field, _ := refused.Details["field"].(string)
	text := strings.TrimSuffix(refused.Message, ".")
	problem, same := strings.CutPrefix(text, "Invalid "+field+": ")
	if !same { // as a gateway says it
		problem, same = strings.CutPrefix(text, "Invalid field "+field+": ")
	}
	switch {
	case same && names[field] != "":
		return program.Exit(program.Usage, fmt.Errorf("%s: %s", names[field], problem))
	case refused.Status == http.StatusConflict && field == jobapi.HeaderIdempotencyKey:
		return program.Exit(program.Usage, fmt.Errorf("--idempotency-key: %s", lower(text)))
	case refused.Status == http.StatusConflict && refused.Code == jobapi.CodeConflict:
		return program.Exit(program.Failed, errors.New(lower(text)))
	case refused.Status == http.StatusBadRequest && strings.HasPrefix(field, "params"):
		return program.Exit(program.Usage, errors.New(text))
	}
	return err
}

func lower(s string) string { return strings.ToLower(s[:min(1, len(s))]) + s[min(1, len(s)):] }

// submitter does what a frontend does: store, record, publish.
type submitter struct {
	store storage.Store
	redis redis.UniversalClient
	fleet *provider.Fleet
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
	rdb := e.openRedis(0)
	fleet := &provider.Fleet{Status: status.New(rdb), Publish: pub.Publish, Storage: func(context.Context) (storage.Store, error) { return store, nil }}
	return &submitter{store: store, redis: rdb, fleet: fleet}, closers{pub, rdb}, nil
}

// all queues a job for each input and returns those it has queued, also when it fails halfway.
func (s *submitter) all(ctx context.Context, inputs []jobInput, job jobapi.Submission) (sent []submitted, err error) {
	for _, in := range inputs {
		id, err := s.one(ctx, in, job)
		if err != nil && len(inputs) > 1 {
			return sent, fmt.Errorf("submit %s: %w", in.label, err)
		}
		if err != nil {
			return sent, err
		}
		sent = append(sent, submitted{id, in.label})
	}
	return sent, nil
}

// checkTopic returns an error if no worker would get a message: a topic without a subscription
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

package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/pubsub/provider"
	"github.com/batchfleet/batchfleet/storage"
)

// submitJobs queues jobs of the fleet: through a server, or directly.
func (f *submitFlags) submitJobs(c *connection, cmd *cobra.Command, files []string) error {
	ctx := cmd.Context()
	if c.address() != "" && len(files) > 0 {
		return program.Exit(program.Usage, errors.New("through a server jobs of the fleet get no files: leave out --api (or BATCHFLEET_API) to submit them where their storage is, "+
			"or name with --kind and --input an object of that storage, or many objects to `batchfleet run submit-batch`"))
	}
	if c.address() != "" && (f.kind == "" || f.asked.input == "-") {
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
	s := jobapi.Submission{Kind: f.kind, Params: params, ID: f.asked.id, Key: f.asked.idempotency}
	if kind != nil { // what is wrong is said before anything is stored, or sent
		checked := s
		if len(files) > 0 || f.asked.input != "" {
			checked.Input = "uploads/x"
		}
		if _, err := provider.CheckKind(kind, checked); err != nil {
			return flagged(err)
		}
	}
	if c.address() != "" {
		s.Input = f.asked.input
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
	sent := []submitted{{jobs.ID(j.ID), s.Input}}
	if !f.wait {
		return printSubmitted(out, sent, f.asJSON)
	}
	return c.waitForAll(ctx, sent, fleetScope, s.Kind, f, out, stderr)
}

const fleetScope = "fleet"

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
	sub.fleet.Kinds = set
	check := s
	check.Input, check.InputAs = inputs[0].object, inputs[0].file
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
	names := map[string]string{"kind": "--kind", "input": "--input", "id": "--id", "params": "--params", jobapi.HeaderIdempotencyKey: "--idempotency-key"}
	if field, ok := errors.AsType[*jobapi.FieldError](err); ok && names[field.Field] != "" {
		return program.Exit(program.Usage, fmt.Errorf("%s: %s", names[field.Field], field.Problem))
	}
	refused, ok := errors.AsType[*jobapi.Refusal](err)
	if !ok || errors.Is(err, jobs.ErrUnavailable) {
		return err
	}
	field, _ := refused.Details["field"].(string)
	text := strings.TrimSuffix(refused.Message, ".")
	switch problem, same := strings.CutPrefix(text, "Invalid "+field+": "); {
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

// jobInput is what one job is to work on.
type jobInput struct {
	label  string // as it was given
	file   string // here, or - for standard input; empty for none
	object string // of the storage, empty for none
}

// inputs returns the input of each job: one, without a file or with what --input names, if there are no files.
func (a *asked) inputs(files []string) ([]jobInput, error) {
	if len(files) > 0 {
		return each(files, func(file string) jobInput { return jobInput{label: file, file: file} }), nil
	}
	in := jobInput{label: a.input}
	if a.input == "" {
		return []jobInput{in}, nil
	}
	switch info, err := os.Stat(a.input); {
	case a.input == "-":
		in.file = a.input
	case err == nil && !info.Mode().IsRegular():
		return nil, program.Exit(program.Usage, fmt.Errorf("--input: %s is not a regular file", a.input))
	case err == nil:
		in.file = a.input
	default:
		in.object = a.input
	}
	return []jobInput{in}, nil
}

// submitter does what a frontend does: store, record, publish.
type submitter struct {
	store storage.Store
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
	st, redis := e.openStatus(0)
	fleet := &provider.Fleet{Status: st, Publish: pub.Publish, Storage: func(context.Context) (storage.Store, error) { return store, nil }}
	return &submitter{store: store, fleet: fleet}, closers{pub, redis}, nil
}

// all queues a job for each input and returns those it has queued, also when it fails halfway.
func (s *submitter) all(ctx context.Context, inputs []jobInput, job jobapi.Submission) (sent []submitted, err error) {
	for _, in := range inputs {
		id, err := s.one(ctx, in, job)
		if err != nil && in.file != "" && len(inputs) > 1 {
			return sent, fmt.Errorf("submit %s: %w", in.file, err)
		}
		if err != nil {
			return sent, err
		}
		sent = append(sent, submitted{id, in.label})
	}
	return sent, nil
}

// one queues a job. What it has stored is deleted again if there is no job then that needs it.
func (s *submitter) one(ctx context.Context, in jobInput, job jobapi.Submission) (jobs.ID, error) {
	id := jobs.ID(ulid.Make().String())
	if job.Key != "" {
		var err error
		if id, err = pubsub.KeyID(job.Key); err != nil {
			return "", &jobapi.FieldError{Field: jobapi.HeaderIdempotencyKey, Problem: err.Error()}
		}
	}
	job.Input = in.object
	if in.file != "" {
		known, err := s.known(ctx, id, job)
		if err != nil {
			return "", err
		}
		if job.Input, job.InputAs, err = s.upload(ctx, id, in.file, job, known); err != nil {
			return "", err
		}
	}
	j, repeated, err := s.fleet.SubmitAs(ctx, id, job)
	mayNeed := errors.Is(err, pubsub.ErrMayBeQueued) || errors.Is(err, pubsub.ErrNotPublished)
	if in.file != "" && job.Input != "" && (err != nil && !mayNeed || repeated) {
		err = errors.Join(err, s.remove(ctx, job.Input))
	}
	return jobs.ID(j.ID), err
}

// removeTimeout is for deleting what was stored for a job that there is none of.
const removeTimeout = 10 * time.Second

func (s *submitter) remove(ctx context.Context, object string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if err := s.store.Delete(ctx, object); err != nil {
		return fmt.Errorf("what was stored for it is left over: %w", err)
	}
	return nil
}

// known reports whether a job that is named by its sender is known, so that nothing need be stored for it.
func (s *submitter) known(ctx context.Context, id jobs.ID, job jobapi.Submission) (bool, error) {
	if job.ID != "" {
		return false, s.fleet.New(ctx, jobs.ID(job.ID))
	}
	if job.Key == "" {
		return false, nil
	}
	found, err := s.fleet.Status.Submitted(ctx, id)
	return found.Known, err
}

// upload stores a file, and returns its object and what stands for it where two submissions are compared: of one with
// an idempotency key its name and its SHA-256. If such a job is known already, nothing is stored.
func (s *submitter) upload(ctx context.Context, id jobs.ID, file string, job jobapi.Submission, known bool) (object, as string, err error) {
	var f io.ReadCloser
	name := filepath.Base(file)
	if file == "-" {
		f, name = program.Stdin(ctx), "input"
	} else if f, err = os.Open(file); err != nil {
		return "", "", err
	}
	defer f.Close()
	dir := string(id)
	if job.ID != "" {
		dir = job.ID
	}
	if job.ID != "" || job.Key != "" {
		dir += "/" + rand.Text() // another command may store for the same job now, and its input is not ours
	}
	object = inputName(dir, name)
	if job.Key == "" {
		return object, file, s.store.Put(ctx, object, f)
	}
	sum := sha256.New()
	if known {
		object = ""
		_, err = io.Copy(sum, f)
	} else {
		err = s.store.Put(ctx, object, io.TeeReader(f, sum))
	}
	text, _ := json.Marshal([]string{name, hex.EncodeToString(sum.Sum(nil))}) // strings always have a form
	return object, string(text), err
}

// inputName is where the fleet keeps the input of a job.
func inputName(dir, file string) string {
	name := "uploads/" + dir + "/" + file
	if storage.ValidName(name) != nil {
		return "uploads/" + dir + "/document" + filepath.Ext(file)
	}
	return name
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

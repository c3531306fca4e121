package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/pubsub"
)

var _ jobapi.Submitter = (*Fleet)(nil)

// builtIn are the kinds that every worker runs. They take no parameters.
var builtIn = []string{"pdf", "mock"}

// Submit implements [jobapi.Submitter]. Beside the errors that it names, one that is about a message wraps
// [pubsub.ErrNotPublished] or [pubsub.ErrMayBeQueued].
//
// The key of a submission is good for as long as the job is known: 24 h after its last change.
func (f *Fleet) Submit(ctx context.Context, s jobapi.Submission) (jobapi.Job, bool, error) {
	return f.SubmitAs(ctx, jobs.ID(ulid.Make().String()), s)
}

// SubmitAs is Submit of a job that gets this id, which no other job has, unless the submission names it. An input for
// which one of InputsAs stands is not looked for.
func (f *Fleet) SubmitAs(ctx context.Context, id jobs.ID, s jobapi.Submission) (jobapi.Job, bool, error) {
	if f.Publish == nil {
		return jobapi.Job{}, false, notSetUp("This server has no Pub/Sub: set GCP_PROJECT_ID, and PUBSUB_EMULATOR_HOST for an emulator")
	}
	job, request, err := f.jobOf(ctx, id, s)
	if err != nil {
		return jobapi.Job{}, false, err
	}
	known := false
	if s.Key != "" || s.ID != "" {
		if known, err = f.known(ctx, job.ID, s.ID != ""); err != nil {
			return jobapi.Job{}, false, err
		}
	}
	if !known {
		if err := f.checkInputs(ctx, s, job.ID); err != nil {
			return jobapi.Job{}, false, err
		}
	}
	queued := true
	switch {
	case s.Key != "":
		queued, err = pubsub.SubmitOnce(ctx, f.Status, f.Publish, job, request, 0)
	case s.ID != "":
		err = pubsub.SubmitAs(ctx, f.Status, f.Publish, job, 0)
	default:
		err = pubsub.Submit(ctx, f.Status, f.Publish, job, 0)
	}
	if err != nil {
		return jobapi.Job{}, false, submitError(err)
	}
	j, err := f.one(ctx, string(job.ID))
	if err != nil { // it is queued all the same
		j = jobapi.Job{ID: string(job.ID), Scope: fleetScope, Type: fleetScope + "." + cmp.Or(s.Kind, "unknown"), Status: jobs.Queued, CreatedAt: jobapi.At(job.Submitted), Request: json.RawMessage("{}")}
	}
	return j, !queued, nil
}

// Check returns what is wrong with the kind of a submission and what it is asked for. It does not look for the input.
func (f *Fleet) Check(ctx context.Context, s jobapi.Submission) error {
	_, _, err := f.jobOf(ctx, "", s)
	return err
}

// New returns an error if there is a job with this id already, as Submit does.
func (f *Fleet) New(ctx context.Context, id jobs.ID) error {
	_, err := f.known(ctx, id, true)
	return err
}

// jobOf makes a job of a submission, and what it is compared by.
func (f *Fleet) jobOf(ctx context.Context, id jobs.ID, s jobapi.Submission) (job jobs.Job, request string, err error) {
	job = jobs.Job{ID: id, Kind: jobs.Kind(s.Kind), Submitted: time.Now(), NotBefore: s.NotBefore.Time}
	if s.ID != "" {
		if job.ID, err = jobs.ParseID(s.ID); err != nil {
			return job, "", &jobapi.FieldError{Field: "id", Problem: jobapi.ShownText(err.Error(), 300)}
		}
	}
	names := s.Names()
	if err := validInputs(s); err != nil {
		return job, "", err
	}
	if len(names) == 1 {
		job.Input = names[0]
	} else {
		job.Inputs = names
	}
	if s.Key != "" {
		if job.ID, err = pubsub.KeyID(s.Key); err != nil {
			return job, "", &jobapi.FieldError{Field: jobapi.HeaderIdempotencyKey, Problem: err.Error()}
		}
		as := make([]string, len(names))
		for i := range names {
			as[i], _ = s.As(i)
		}
		if request, err = pubsub.RequestOf(job.Kind, s.Params, as...); err != nil {
			return job, "", &jobapi.FieldError{Field: "params", Problem: "want an object in JSON"}
		}
	}
	params, err := f.checkKind(ctx, s)
	job.Payload = string(params)
	return job, request, err
}

// checkKind checks what is asked of a kind, and returns the parameters as its worker gets them.
func (f *Fleet) checkKind(ctx context.Context, s jobapi.Submission) (json.RawMessage, error) {
	has := len(bytes.TrimSpace(s.Params)) > 0 && !bytes.Equal(bytes.TrimSpace(s.Params), []byte("{}"))
	switch {
	case s.Kind == "" || slices.Contains(builtIn, s.Kind):
		if has {
			return nil, &jobapi.FieldError{Field: "params", Problem: "documents have none: name the kind that has"}
		}
		return nil, checkDocument(s)
	case !pubsub.ValidKind(s.Kind):
		return nil, &jobapi.FieldError{Field: "kind", Problem: "must be lower-case letters, digits and -, such as pdf or mock, a letter first"}
	}
	if k := f.kind(jobs.Kind(s.Kind)); k != nil {
		return CheckKind(k, s)
	}
	if err := f.checkWorkers(ctx, s.Kind); err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if has && (json.Unmarshal(s.Params, &fields) != nil || len(s.Params) > kinds.MaxParams) {
		return nil, &jobapi.FieldError{Field: "params", Problem: fmt.Sprintf("want an object in JSON of at most %d bytes", kinds.MaxParams)}
	}
	return s.Params, nil
}

// CheckKind checks what is asked of a kind of the kinds file, and returns the parameters as its worker gets them.
func CheckKind(k *kinds.Kind, s jobapi.Submission) (json.RawMessage, error) {
	params, err := k.CheckParams(s.Params)
	if wrong, ok := errors.AsType[*kinds.ParamsError](err); ok {
		field := "params"
		if len(wrong.Errors) > 0 && wrong.Errors[0].Name != "" {
			field += "." + wrong.Errors[0].Name
		}
		return nil, &jobapi.Refusal{
			Status: http.StatusBadRequest, Code: jobapi.CodeInvalidArgument, Message: wrong.Error(),
			Details: map[string]any{"field": jobapi.ShownText(field, 200)},
		}
	}
	if err != nil {
		return nil, err
	}
	switch n := len(s.Names()); {
	case n == 0 && k.NeedsInput():
		return nil, &jobapi.FieldError{Field: "input", Problem: fmt.Sprintf("the command of kind %s names its input, so a job needs one", k.Name)}
	case n > 1 && k.OneInput():
		return nil, &jobapi.FieldError{Field: "inputs", Problem: fmt.Sprintf("the command of kind %s has {input} within an argument, so a job has one, and not %d", k.Name, n)}
	}
	return params, nil
}

func (f *Fleet) kind(name jobs.Kind) *kinds.Kind {
	if f.KindsFile == nil {
		return nil
	}
	return f.KindsFile().Get(name)
}

// checkWorkers returns an error for a kind that is neither ours nor in the kinds file, if no live worker runs it.
func (f *Fleet) checkWorkers(ctx context.Context, kind string) error {
	workers, err := f.Workers(ctx)
	if err != nil {
		return err
	}
	known := slices.Clone(builtIn)
	if f.KindsFile != nil {
		for _, k := range f.KindsFile().Kinds {
			known = append(known, string(k.Name))
		}
	}
	for _, w := range workers {
		if slices.Contains(w.Kinds, kind) {
			return nil
		}
		known = append(known, w.Kinds...)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	const most = 20
	if len(known) > most {
		known = append(known[:most], "…")
	}
	return &jobapi.FieldError{Field: "kind", Problem: jobapi.ShownText(fmt.Sprintf("%.40q is in no kinds file here, and no worker runs it: want one of %s", kind, strings.Join(known, ", ")), 1000)}
}

// known reports whether there is a job with an id that a sender has chosen. With fresh that is an error.
func (f *Fleet) known(ctx context.Context, id jobs.ID, fresh bool) (bool, error) {
	found, err := f.Status.Submitted(ctx, id)
	if err != nil {
		return false, err
	}
	if found.Known {
		if fresh {
			err = submitError(&pubsub.ExistsError{ID: id, State: found.State})
		}
		return true, err
	}
	if f.Storage == nil {
		return false, nil
	}
	store, err := f.Storage(ctx)
	if err != nil {
		return false, err
	}
	_, err = store.Stat(ctx, artifact.ResultName(id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	const kept = "There is a job %s already: it has succeeded, and is no longer known but for its result, which is stored"
	return false, &jobapi.Refusal{
		Status: http.StatusConflict, Code: jobapi.CodeConflict, Message: fmt.Sprintf(kept, id),
		Details: map[string]any{"status": jobs.Succeeded.String(), "jobId": string(id)},
	}
}

// submitError is an error of package pubsub for the caller of the Job API.
func submitError(err error) error {
	if exists, ok := errors.AsType[*pubsub.ExistsError](err); ok {
		return &jobapi.Refusal{
			Status: http.StatusConflict, Code: jobapi.CodeConflict, Message: upper(exists.Error()),
			Details: map[string]any{"status": exists.State.String(), "jobId": string(exists.ID)},
		}
	}
	if errors.Is(err, pubsub.ErrKeyUsed) {
		return &jobapi.Refusal{
			Status: http.StatusConflict, Code: jobapi.CodeConflict, Message: upper(pubsub.ErrKeyUsed.Error()),
			Details: map[string]any{"field": jobapi.HeaderIdempotencyKey},
		}
	}
	if errors.Is(err, pubsub.ErrNotPublished) {
		return &notPublished{&jobapi.Refusal{Status: http.StatusServiceUnavailable, Code: jobapi.CodeUnavailable, Message: upper(jobapi.ShownText(err.Error(), 500))}, err}
	}
	return err
}

// notPublished is a refusal that says so, and still the error behind it.
type notPublished struct { //nolint:errname // a refusal is an answer
	*jobapi.Refusal
	err error
}

func (e *notPublished) Error() string   { return e.err.Error() }
func (e *notPublished) Unwrap() []error { return []error{e.Refusal, e.err} }

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/outbox"
	"github.com/batchfleet/batchfleet/retry"
)

const (
	uploadFor     = 24 * time.Hour // how long an upload is tried
	uploadStall   = time.Minute    // without a byte
	uploadTimeout = 12 * time.Hour // of one attempt; what stands still ends sooner
	// parallelUploads is how many tasks upload at once.
	parallelUploads = 4
)

// uploads send what tasks have made to the orchestrator. A task that is uploading on disk is the entry: that and the
// list of its artifacts are written at once, when its program has ended, and its end is written when the orchestrator has
// decided. A relay that dies in between sends all of it again, with the same Idempotency-Key.
type uploads struct {
	outbox.Sender
	tasks     *Tasks
	metrics   *Metrics
	base      *url.URL // of the orchestrator; nil for none
	client    caller   // of the orchestrator
	storage   caller   // of pre-signed URLs
	presigned bool
	token     func() string
	stall     time.Duration
}

// caller is an [egress.Client], or what takes its place in a test.
type caller interface {
	Do(ctx context.Context, r *egress.Request) (egress.Response, error)
}

func newUploads(r *Relay, orchestrator called) *uploads {
	return &uploads{
		tasks: r.tasks, metrics: r.Metrics, base: r.Orchestrator, client: orchestrator.client, storage: r.client(r.Storage),
		presigned: r.Presigned, token: r.token, stall: uploadStall,
		Sender: outbox.Sender{
			Uploads: parallelUploads, Retry: retry.Policy{First: time.Second, Max: 5 * time.Minute}, FinalTimeout: r.Drain, Log: r.Log,
		},
	}
}

// start begins to upload a task.
func (u *uploads) start(e *entry) {
	u.Deliver(outbox.Item{
		Try:   func(ctx context.Context) error { return u.Upload(ctx, func() error { return u.try(ctx, e) }) },
		Attrs: []slog.Attr{slog.String("task", string(e.id)), slog.String("what", "artifacts")},
	})
}

// try makes one attempt, and records how it has ended if that is a decision. A task that was canceled is not sent, and
// without an orchestrator each has succeeded.
func (u *uploads) try(ctx context.Context, e *entry) error {
	e.mu.Lock()
	t := e.task.Load()
	if t.State != Uploading || t.CancelRequested || u.base == nil {
		defer e.mu.Unlock()
		return u.settle(e, nil)
	}
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	e.cancel = cancel
	e.mu.Unlock()

	began := time.Now()
	err := u.send(sending, t)

	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancel = nil
	u.metrics.uploaded(t, began, err)
	if ctx.Err() != nil && err != nil {
		return &outbox.RetryError{Err: context.Cause(ctx)} // the relay stops; the next one goes on
	}
	return u.settle(e, err)
}

// settle records how an upload has ended: err is nil, or why it has failed. It returns a [*outbox.RetryError] if it is
// to be tried again. e.mu is held.
func (u *uploads) settle(e *entry, err error) error {
	undecided := (*outbox.RetryError)(nil)
	now := time.Now().UTC()
	t, wrote := u.tasks.change(e, func(t *Task) error {
		switch {
		case t.State != Uploading:
			return errUnchanged
		case t.CancelRequested:
			return t.become(Canceled, now)
		case err == nil:
			return t.become(Succeeded, now)
		case errors.As(err, &undecided) && now.Sub(t.UploadingAt) < uploadFor:
			return errUnchanged
		case undecided != nil:
			err = fmt.Errorf("not delivered within %s: %w", uploadFor, undecided.Err)
		}
		t.Error = &Error{Code: codeUploadFailed, Message: jobs.Clip(err.Error(), maxEventMessage, "…")}
		return t.become(Failed, now)
	})
	switch {
	case wrote == nil:
		e.made = nil
		u.Log.Info("task ended", "task", t.ID, "job_id", t.JobID, "kind", t.Kind, "status", t.State, "took", now.Sub(t.UploadingAt), "err", err)
		return nil
	case !errors.Is(wrote, errUnchanged): // the disk takes nothing: it is uploaded once more then
		return &outbox.RetryError{Err: wrote}
	case undecided != nil:
		waiting := *t // for people: it is not worth a write
		waiting.Message = jobs.Clip(err.Error(), maxReason, "…")
		u.tasks.publish(e, &waiting)
		return err
	}
	return nil
}

// retryUpload has a task uploaded again whose upload has failed. The error wraps [fs.ErrNotExist] or [errEnded].
func (r *Relay) retryUpload(id jobs.ID) (*Task, error) {
	e, err := r.tasks.lock(id)
	if err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	t := e.task.Load()
	if t.State != Failed || t.Error.Code != codeUploadFailed {
		return t, fmt.Errorf("retry the upload of task %s: %w: only an upload that has failed can be made again", id, errEnded)
	}
	if r.Orchestrator == nil {
		return t, fmt.Errorf("retry the upload of task %s: %w: this relay has no orchestrator", id, errEnded)
	}
	t, err = r.tasks.change(e, func(t *Task) error { return t.become(Uploading, time.Now().UTC()) })
	if err == nil {
		r.uploads.start(e)
	}
	return t, err
}

// send sends all artifacts of a task. The error is an [*outbox.RetryError] if another attempt may help.
func (u *uploads) send(ctx context.Context, t *Task) error {
	if u.presigned {
		return u.sendPresigned(ctx, t)
	}
	about, err := t.manifest("")
	if err != nil {
		return err
	}
	form := []egress.Part{{Field: "metadata", Content: egress.Bytes("application/json", about)}}
	for _, a := range t.Artifacts {
		form = append(form, egress.Part{Field: "file", File: a.Name, Content: u.content(t.ID, a)})
	}
	_, err = u.post(ctx, t, egress.Form(form...), 0)
	return err
}

// content is an artifact as it is sent.
func (u *uploads) content(id jobs.ID, a Artifact) egress.Content {
	return egress.Content{MediaType: a.ContentType, Length: a.Size, Open: func() (io.ReadCloser, error) { return u.tasks.openChecked(id, a) }}
}

// address is where the artifacts of a task go.
func (u *uploads) address(t *Task) string {
	return u.base.JoinPath("api", "jobs", url.PathEscape(t.JobID), "relay-upload").String()
}

// post sends something to the orchestrator, and keeps up to limit bytes of its answer.
func (u *uploads) post(ctx context.Context, t *Task, body egress.Content, limit int64) (egress.Response, error) {
	header := http.Header{"Content-Type": {body.MediaType}, TokenHeader: {u.token()}, "Idempotency-Key": {string(t.ID)}}
	askFirst(header, body.Length)
	resp, err := u.client.Do(ctx, &egress.Request{
		Method: http.MethodPost, URL: u.address(t), Header: header, Body: body.Open, Length: body.Length,
		Timeout: uploadTimeout, Stall: u.stall, ResponseLimit: limit,
	})
	return resp, decided("the orchestrator at "+u.base.Host, resp, err)
}

// askFirst asks a server whether it takes a large body before that is sent. Otherwise a refusal may be lost when the server closes the
// connection, and the upload be tried for a day.
func askFirst(header http.Header, length int64) {
	const large = 1 << 20 // bytes; curl asks from here on, too
	if length > large {
		header.Set("Expect", "100-continue")
	}
}

// decided returns nil for an answer that means success, an [*outbox.RetryError] if another attempt may help, and
// another error otherwise.
func decided(who string, resp egress.Response, err error) error {
	switch code := resp.Status; {
	case errors.Is(err, errDamaged):
		return err
	case errors.Is(err, egress.ErrDenied):
		return fmt.Errorf("%s: %w", who, err)
	case err != nil:
		return &outbox.RetryError{Err: fmt.Errorf("%s: %w", who, err)}
	case isSuccess(code) || code == http.StatusConflict:
		return nil
	case code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests || code >= 500:
		return &outbox.RetryError{Err: fmt.Errorf("%s has answered %s", who, statusText(code)), After: resp.RetryAfter}
	default:
		return fmt.Errorf("%s has refused the artifacts: %s", who, statusText(code))
	}
}

func isSuccess(code int) bool { return code >= 200 && code < 300 }

func statusText(code int) string {
	if text := http.StatusText(code); text != "" {
		return strconv.Itoa(code) + " " + text
	}
	return strconv.Itoa(code)
}

// manifest is what the orchestrator is told of a task's artifacts.
type manifest struct {
	Phase     string     `json:"phase,omitempty"` // begin or complete, of an upload to pre-signed URLs
	ID        jobs.ID    `json:"task_id"`
	JobID     string     `json:"job_id"`
	Kind      jobs.Kind  `json:"kind"`
	Artifacts []Artifact `json:"artifacts"`
}

func (t *Task) manifest(phase string) ([]byte, error) {
	return json.Marshal(manifest{Phase: phase, ID: t.ID, JobID: t.JobID, Kind: t.Kind, Artifacts: t.Artifacts})
}

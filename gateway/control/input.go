package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// inputPrefix begins the names of uploads on the wire.
const inputPrefix = "uploads/"

// addInput stores an upload, and names it for a submission.
func (c *Control) addInput(w http.ResponseWriter, r *http.Request) error {
	if c.Files == nil {
		return errNoFiles
	}
	want := strings.ToLower(r.Header.Get(wire.HeaderSHA256))
	if want != "" && !validSum(want) {
		return badHeader(wire.HeaderSHA256, "want 64 hexadecimal digits")
	}
	most, whose := c.maxInput(kindOf(r))
	tooLarge := &gateway.Error{
		Status: http.StatusRequestEntityTooLarge, Code: wire.PayloadTooLarge, Message: fmt.Sprintf("Input larger than %d bytes (%s)", most, whose),
	}
	if r.ContentLength > most {
		return tooLarge
	}
	name := ulid.Make().String()
	content := newSummed(stream(w, r, most), want)
	err := c.Files.Store.Put(r.Context(), uploadsPrefix+name, content)
	if large := (*http.MaxBytesError)(nil); errors.As(content.failed, &large) {
		return tooLarge
	}
	if content.failed != nil {
		return broken(content.failed)
	}
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(r.Context())
	defer cancel()
	u := queue.Upload{Name: name, Size: content.n, SHA256: content.sum()}
	if err := c.Queue.AddUpload(ctx, u); err != nil {
		return err
	}
	return write(w, wire.InputResponse{Input: inputPrefix + name, Size: u.Size, SHA256: u.SHA256})
}

var errNoInput = &gateway.Error{Status: 404, Code: wire.InputNotFound, Message: "The job has no input, or it is not kept any more"}

// input sends a worker the input of its job.
func (c *Control) input(w http.ResponseWriter, r *http.Request, from call) error {
	u, err := inputOf(r.Context(), c.Queue, from.job)
	if err != nil {
		return err
	}
	return c.send(w, r, file{object: uploadsPrefix + u.Name, sum: u.SHA256, media: "application/octet-stream", size: u.Size, missing: errNoInput})
}

// inputOf returns the upload that is the input of a job, or errNoInput.
func inputOf(ctx context.Context, q *queue.Queue, id jobs.ID) (queue.Upload, error) {
	payload, err := q.Payload(ctx, id)
	if err != nil {
		return queue.Upload{}, err
	}
	var req wire.SubmitRequest
	if json.Unmarshal([]byte(payload), &req) != nil || req.Input == "" {
		return queue.Upload{}, errNoInput
	}
	u, err := q.Upload(ctx, strings.TrimPrefix(req.Input, inputPrefix))
	if errors.Is(err, queue.ErrNoUpload) {
		err = errNoInput
	}
	return u, err
}

// maxInput returns how large the input of a job may be, and by which setting.
func (c *Control) maxInput(kind jobs.Kind) (most int64, whose string) {
	if own := c.kinds().now[kind].MaxInput; own > 0 && own < c.Files.MaxInput {
		return own, "max_input of kind " + string(kind)
	}
	return c.Files.MaxInput, "MAX_INPUT_BYTES of the gateway"
}

// upload returns the upload that a submission names. It may have been sent for another kind, which takes larger ones.
func (c *Control) upload(ctx context.Context, kind jobs.Kind, input string) (queue.Upload, error) {
	name, ok := strings.CutPrefix(input, inputPrefix)
	if _, err := ulid.ParseStrict(name); !ok || err != nil {
		return queue.Upload{}, errNoUpload
	}
	if c.Files == nil {
		return queue.Upload{}, errNoFiles
	}
	u, err := c.Queue.Upload(ctx, name)
	if errors.Is(err, queue.ErrNoUpload) {
		return queue.Upload{}, errNoUpload
	}
	if most, whose := c.maxInput(kind); err == nil && u.Size > most {
		err = &fieldError{"input", invalid("input", "it has %d bytes, and at most %d are allowed (%s)", u.Size, most, whose)}
	}
	return u, err
}

var errNoUpload = &fieldError{"input", invalid("input", "there is no such upload, or it is not kept any more")}

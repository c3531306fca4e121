package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
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

// input sends a worker an input of its job.
func (c *Control) input(w http.ResponseWriter, r *http.Request, from call) error {
	number := 0
	if r.URL.RawQuery != "" {
		var err error
		if number, err = strconv.Atoi(r.URL.Query().Get("number")); err != nil || number < 1 {
			return errNumber
		}
	}
	u, err := inputOf(r.Context(), c.Queue, from.job, number)
	if err != nil {
		return err
	}
	return c.send(w, r, file{object: uploadsPrefix + u.Name, sum: u.SHA256, media: "application/octet-stream", size: u.Size, missing: errNoInput})
}

var errNumber = invalid("number", "want that of an input, from 1 on")

// inputOf returns the upload that is an input of a job, or errNoInput. The inputs count from 1; 0 is that of a job with one.
func inputOf(ctx context.Context, q *queue.Queue, id jobs.ID, number int) (queue.Upload, error) {
	payload, err := q.Payload(ctx, id)
	if err != nil {
		return queue.Upload{}, err
	}
	req, err := wire.ParsePayload([]byte(payload))
	names := req.Names()
	switch {
	case err == nil && number == 0 && len(names) > 1:
		return queue.Upload{}, errNumber
	case err != nil, max(1, number) > len(names):
		return queue.Upload{}, errNoInput
	}
	found, err := q.Uploads(ctx, strings.TrimPrefix(names[max(1, number)-1], inputPrefix))
	if err != nil {
		return queue.Upload{}, err
	}
	if found[0].Name == "" {
		return queue.Upload{}, errNoInput
	}
	return found[0], nil
}

// maxInput returns how large the inputs of a job may be together, and by which setting.
func (c *Control) maxInput(kind jobs.Kind) (most int64, whose string) {
	if own := c.kinds().now[kind].MaxInput; own > 0 && own < c.Files.MaxInput {
		return own, "max_input of kind " + string(kind)
	}
	return c.Files.MaxInput, "MAX_INPUT_BYTES of the gateway"
}

// uploads returns the uploads that a submission names in a field. They may have been sent for another kind, which takes
// larger ones.
func (c *Control) uploads(ctx context.Context, kind jobs.Kind, field string, inputs []string) ([]queue.Upload, error) {
	if len(inputs) > wire.MaxInputs {
		return nil, &fieldError{field, invalid(field, "%d inputs, at most %d are allowed", len(inputs), wire.MaxInputs)}
	}
	names := make([]string, len(inputs))
	for i, input := range inputs {
		name, ok := strings.CutPrefix(input, inputPrefix)
		if _, err := ulid.ParseStrict(name); !ok || err != nil {
			return nil, noUpload(field, i)
		}
		names[i] = name
	}
	if c.Files == nil {
		return nil, errNoFiles
	}
	found, err := c.Queue.Uploads(ctx, names...)
	if err != nil {
		return nil, err
	}
	most, whose := c.maxInput(kind)
	var all int64
	for i, u := range found {
		if u.Name == "" {
			return nil, noUpload(field, i)
		}
		all += u.Size
	}
	switch {
	case all <= most:
	case field == "input":
		return nil, &fieldError{field, invalid(field, "it has %d bytes, and at most %d are allowed (%s)", all, most, whose)}
	default:
		return nil, &fieldError{field, invalid(field, "they have %d bytes together, and at most %d are allowed (%s)", all, most, whose)}
	}
	return found, nil
}

// noUpload is for an input of a submission, the ith from 0, that is not there.
func noUpload(field string, i int) error {
	if field == "input" {
		return &fieldError{field, invalid(field, "there is no such upload, or it is not kept any more")}
	}
	return &fieldError{field, invalid(field, "there is no upload such as number %d, or it is not kept any more", i+1)}
}

package control

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// submitKind queues a job of a kind beside zpe.
func (c *Control) submitKind(w http.ResponseWriter, r *http.Request, kind jobs.Kind, key string) error {
	var req wire.SubmitRequest
	if err := httpd.ReadJSON(w, r, wire.MaxPayload, &req, httpd.BodyOptions{}); err != nil {
		return err
	}
	id, _, err := c.SubmitKind(r.Context(), kind, req, key)
	if err != nil {
		return err
	}
	return write(w, wire.SubmitResponse{JobID: string(id)})
}

// SubmitKind queues a job of a kind beside zpe. What is queued has its parameters as it runs with them, also those that
// have their defaults. again reports that the job was queued before under the same key, if that is not empty. [Refused]
// tells what is wrong with a request.
func (c *Control) SubmitKind(ctx context.Context, kind jobs.Kind, req wire.SubmitRequest, key string) (id jobs.ID, again bool, err error) {
	c.init()
	k, known := c.kinds().now[kind]
	switch {
	case !known:
		return "", false, errNoKind
	case key != "" && !validKey(key):
		return "", false, &fieldError{wire.HeaderIdempotencyKey, errKey}
	}
	if len(req.Params) == 0 || string(req.Params) == "null" {
		req.Params = json.RawMessage("{}")
	}
	if req.Params[0] != '{' {
		return "", false, &fieldError{"params", invalid("params", "want an object")}
	}
	if check := k.CheckParams; check != nil {
		params, err := check(req.Params)
		if err != nil {
			return "", false, badParams(err)
		}
		req.Params = params
	}
	field := "inputs"
	switch {
	case req.Input != "" && len(req.Inputs) > 0:
		return "", false, &fieldError{field, invalid(field, "leave it out, or input: they are one field")}
	case len(req.Names()) == 0 && k.NeedsInput:
		field = "input"
		return "", false, &fieldError{field, invalid(field, "the command of kind %s names its input, so a job needs one", kind)}
	case len(req.Inputs) > 1 && k.OneInput:
		return "", false, &fieldError{field, invalid(field, "the command of kind %s has {input} within an argument, so a job has one, and not %d", kind, len(req.Inputs))}
	case len(req.Inputs) == 1:
		req.Input, req.Inputs = req.Inputs[0], nil
	}
	if req.Input != "" {
		field = "input"
	}
	s := queue.Submission{Kind: kind, Idempotency: key}
	if names := req.Names(); len(names) > 0 {
		found, err := c.uploads(ctx, kind, field, names)
		if err != nil {
			return "", false, err
		}
		// The same content that was uploaded twice is the same request.
		same := wire.SubmitRequest{Params: req.Params}
		for _, u := range found {
			s.Uploads, same.Inputs = append(s.Uploads, u.Name), append(same.Inputs, "sha256:"+u.SHA256)
		}
		if req.Input != "" {
			same.Input, same.Inputs = same.Inputs[0], nil
		}
		if s.Request, err = jsonOf(same); err != nil {
			return "", false, err
		}
	}
	if s.Payload, err = jsonOf(req.Payload()); err != nil {
		return "", false, err
	}
	id, again, err = c.queueJob(ctx, s)
	if errors.Is(err, queue.ErrNoUpload) {
		err = &fieldError{field, invalid(field, "an upload is not kept any more")}
	}
	return id, again, err
}

func jsonOf(v any) ([]byte, error) {
	text, err := httpd.EncodeJSON(v)
	if err != nil {
		return nil, err
	}
	return text[:len(text)-1], nil
}

// Refused returns what a caller is told of an error of a Control, and the field that it is about, if it is about one; nil
// for an error that is no caller's business.
func Refused(err error) (refused *gateway.Error, field string) {
	if wrong, ok := errors.AsType[*fieldError](err); ok {
		field = wrong.field
	}
	return refusal(err), field
}

// fieldError is a refusal because of one field, which is told apart from the message, too.
type fieldError struct {
	field string
	error
}

func (e *fieldError) Unwrap() error { return e.error }

// badParams returns the refusal of parameters.
func badParams(err error) error {
	field := "params"
	if wrong, ok := errors.AsType[*kinds.ParamsError](err); ok && len(wrong.Errors) > 0 && wrong.Errors[0].Name != "" {
		field = "params." + wrong.Errors[0].Name
	}
	return &fieldError{jobs.Clip(jobs.Visible(field), wire.MaxName, ""), &gateway.Error{
		Status: http.StatusBadRequest, Code: wire.InvalidPayload, Message: jobs.Clip(jobs.Visible(err.Error()), wire.MaxErrorMessage, "…"),
	}}
}

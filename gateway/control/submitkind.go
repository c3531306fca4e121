package control

import (
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

// submitKind queues a job of a kind beside zpe. What is queued has its parameters as it runs
// with them, also those that have their defaults.
func (c *Control) submitKind(w http.ResponseWriter, r *http.Request, kind jobs.Kind, key string) error {
	var req wire.SubmitRequest
	if err := httpd.ReadJSON(w, r, wire.MaxPayload, &req, httpd.BodyOptions{}); err != nil {
		return err
	}
	if len(req.Params) == 0 || string(req.Params) == "null" {
		req.Params = json.RawMessage("{}")
	}
	if req.Params[0] != '{' {
		return &fieldError{"params", invalid("params", "want an object")}
	}
	k, known := c.kinds().now[kind]
	if !known {
		return errNoKind
	}
	if check := k.CheckParams; check != nil {
		params, err := check(req.Params)
		if err != nil {
			return badParams(err)
		}
		req.Params = params
	}
	upload, err := uploadOf(req.Input)
	if err != nil {
		return err
	}
	payload, err := httpd.EncodeJSON(req)
	if err != nil {
		return err
	}
	err = c.queueJob(w, r, queue.Submission{Kind: kind, Payload: payload[:len(payload)-1], Idempotency: key, Upload: upload})
	if errors.Is(err, queue.ErrNoUpload) {
		return errNoUpload
	}
	return err
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

package control

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

func (c *Control) submit(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	if kind := kindOf(r); kind != queue.KindZPE {
		return c.submitKind(w, r, kind, key)
	}
	var payload json.RawMessage
	if err := httpd.ReadJSON(w, r, wire.MaxPayload, &payload, httpd.BodyOptions{}); err != nil {
		return err
	}
	if payload[0] != '{' {
		return &gateway.Error{Status: 400, Code: wire.InvalidPayload, Message: "Invalid body: want an object"}
	}
	if c.CheckPayload != nil {
		if err := c.CheckPayload(payload); err != nil {
			return &gateway.Error{Status: 400, Code: wire.InvalidPayload, Message: err.Error()}
		}
	}
	id, _, err := c.queueJob(r.Context(), queue.Submission{Payload: payload, Idempotency: key})
	if err != nil {
		return err
	}
	return write(w, wire.SubmitResponse{JobID: string(id)})
}

// queueJob queues a job that was found good. It reports whether that was done before, under the same key.
func (c *Control) queueJob(ctx context.Context, s queue.Submission) (id jobs.ID, again bool, err error) {
	s.ID = jobs.ID(ulid.Make().String())
	id, err = c.Queue.SubmitJob(ctx, s)
	if err != nil {
		return "", false, err
	}
	c.Metrics.submitted.Inc()
	c.waiting.wake(plainKind(s.Kind), 1)
	return id, id != s.ID, nil
}

// idempotencyKey returns the request's key, empty if it has none.
func idempotencyKey(r *http.Request) (string, error) {
	values := r.Header.Values(wire.HeaderIdempotencyKey)
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 || !validKey(values[0]) {
		return "", errKey
	}
	return values[0], nil
}

var errKey = &gateway.Error{
	Status: 400, Code: wire.InvalidPayload,
	Message: "Invalid header Idempotency-Key: want one, of 1 to 255 visible ASCII characters without spaces",
}

func validKey(key string) bool {
	return key != "" && len(key) <= 255 && !strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' })
}

// ofJob makes a handler of one that is about the job in the path. Its context
// bounds its calls of Redis.
func (c *Control) ofJob(h func(ctx context.Context, w http.ResponseWriter, r *http.Request, id jobs.ID) error) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := parseID(r.PathValue("id"))
		if err != nil {
			return err
		}
		ctx, cancel := c.deadline(r.Context())
		defer cancel()
		if err := c.isOfKind(ctx, r, id); err != nil {
			return err
		}
		return h(ctx, w, r, id)
	}
}

func (c *Control) job(ctx context.Context, w http.ResponseWriter, _ *http.Request, id jobs.ID) error {
	j, err := c.Queue.Job(ctx, id)
	if err != nil {
		return err
	}
	return write(w, jobResponse(j))
}

func jobResponse(j queue.Job) wire.JobResponse {
	a := wire.JobResponse{
		JobID: string(j.ID), Status: j.Status, Detail: j.Detail, UpdatedAt: j.UpdatedAt, CreatedAt: j.CreatedAt,
		RetryCount: j.Retries, WorkerID: j.Worker, WorkerName: j.WorkerName, ErrorCode: j.ErrorCode, Kind: string(j.Kind), CancelRequested: j.CancelRequested && j.Status == "started",
	}
	if !j.RunAfter.IsZero() {
		a.RunAfter = timestamp(j.RunAfter)
	}
	if j.Done != 0 || j.Total != 0 {
		a.Progress = &wire.Progress{Done: j.Done, Total: j.Total}
	}
	return a
}

func (c *Control) jobResult(ctx context.Context, w http.ResponseWriter, _ *http.Request, id jobs.ID) error {
	result, err := c.Queue.Result(ctx, id)
	if err != nil {
		return err
	}
	// As it was received: json.Marshal would encode its strings again.
	b := make([]byte, 0, len(result)+16)
	b = append(b, `{"result":`...)
	b = append(b, result...)
	b = append(b, '}', '\n')
	httpd.WriteJSON(w, http.StatusOK, b)
	return nil
}

func (c *Control) jobFiles(ctx context.Context, w http.ResponseWriter, r *http.Request, id jobs.ID) error {
	kinds := r.URL.Query()["kind"]
	if len(kinds) != 1 || kinds[0] != "summary" && kinds[0] != "freqs" {
		return &gateway.Error{Status: 400, Code: wire.InvalidPayload, Message: "Invalid query kind: want summary or freqs"}
	}
	read, media, file := c.Queue.Summary, "text/plain; charset=utf-8", "summary.txt"
	if kinds[0] == "freqs" {
		read, media, file = c.Queue.Freqs, "text/csv; charset=utf-8", "freqs.csv"
	}
	text, err := read(ctx, id)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Disposition", `attachment; filename="`+string(id)+"-"+file+`"`)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write([]byte(text)) // a caller that has gone needs no answer
	return nil
}

func (c *Control) cancel(w http.ResponseWriter, r *http.Request) error {
	id, err := parseID(r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := httpd.ReadJSON(w, r, wire.MaxSmallBody, &struct{}{}, httpd.BodyOptions{AllowEmpty: true}); err != nil {
		return err
	}
	ctx, cancel := c.deadline(r.Context())
	defer cancel()
	if err := c.isOfKind(ctx, r, id); err != nil {
		return err
	}
	ended, err := c.Cancel(ctx, id)
	switch {
	case err != nil:
		return err
	case ended != "" && ended != queue.Canceled: // to ask again changes nothing
		return &gateway.Error{Status: 409, Code: wire.AlreadyEnded, Message: "The job has ended already: it is " + ended}
	}
	return c.job(ctx, w, r, id)
}

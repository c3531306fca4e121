package control

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// How many dead letters or workers one answer lists: as a rule, and at most.
const (
	pageSize    = 100
	maxPageSize = 1000
	maxOffset   = 1 << 40
)

func (c *Control) deadLetters(w http.ResponseWriter, r *http.Request) error {
	offset, limit, err := page(r)
	if err != nil {
		return err
	}
	list, total, err := c.Queue.DeadLettersOf(r.Context(), kindOf(r), offset, limit)
	if err != nil {
		return err
	}
	a := wire.DLQResponse{Total: total, Jobs: []wire.JobResponse{}}
	for _, j := range list {
		a.Jobs = append(a.Jobs, jobResponse(j))
	}
	return write(w, a)
}

// page returns which part of a list a request asks for.
func page(r *http.Request) (offset, limit int, err error) {
	q := r.URL.Query()
	if offset, err = number(q["offset"], "offset", 0, 0, maxOffset); err != nil {
		return 0, 0, err
	}
	limit, err = number(q["limit"], "limit", pageSize, 1, maxPageSize)
	return offset, limit, err
}

func number(values []string, field string, standard, least, most int) (int, error) {
	if len(values) == 0 {
		return standard, nil
	}
	n, err := strconv.Atoi(values[0])
	if len(values) > 1 || err != nil || n < least || n > most {
		return 0, &gateway.Error{
			Status: 400, Code: wire.InvalidPayload,
			Message: "Invalid query " + field + ": want one number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most),
		}
	}
	return n, nil
}

// deadLetter shows all that is known of a job that has failed.
func (c *Control) deadLetter(ctx context.Context, w http.ResponseWriter, _ *http.Request, id jobs.ID) error {
	j, err := c.Queue.Job(ctx, id)
	if err != nil {
		return err
	}
	if j.Status != "failed" {
		return queue.ErrNotDead
	}
	payload, err := c.Queue.Payload(ctx, id)
	if err != nil {
		return err
	}
	a := jobResponse(j)
	a.Traceback = j.Traceback
	if json.Valid([]byte(payload)) { // another program may have written there
		a.Payload = json.RawMessage(payload)
	}
	return write(w, a)
}

func (c *Control) drop(ctx context.Context, w http.ResponseWriter, r *http.Request, id jobs.ID) error {
	if err := c.Queue.Drop(ctx, id); err != nil {
		return err
	}
	c.Log.InfoContext(ctx, "dead letter dropped", "job", id, "remote", r.RemoteAddr)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *Control) requeue(ctx context.Context, w http.ResponseWriter, r *http.Request, id jobs.ID) error {
	if err := c.Queue.Requeue(ctx, id); err != nil {
		return err
	}
	c.waiting.wake(plainKind(kindOf(r)), 1)
	c.Log.InfoContext(ctx, "dead letter queued again", "job", id, "remote", r.RemoteAddr)
	return c.job(ctx, w, r, id)
}

func (c *Control) late(ctx context.Context, w http.ResponseWriter, _ *http.Request, id jobs.ID) error {
	l, err := c.Queue.Late(ctx, id)
	if err != nil {
		return noLate(err)
	}
	return write(w, wire.LateResponse{
		WorkerID: l.Worker, LeaseID: l.LeaseID, ReceivedAt: l.ReceivedAt, Result: json.RawMessage(l.JSON),
		SummaryText: l.Summary, FreqsCSV: l.Freqs, Meta: json.RawMessage(l.Meta),
	})
}

func (c *Control) acceptLate(ctx context.Context, w http.ResponseWriter, r *http.Request, id jobs.ID) error {
	if err := c.Queue.AcceptLate(ctx, id); err != nil {
		return noLate(err)
	}
	c.Log.InfoContext(ctx, "late result accepted", "job", id, "remote", r.RemoteAddr)
	return c.job(ctx, w, r, id)
}

func noLate(err error) error {
	if errors.Is(err, queue.ErrNoJob) {
		return &gateway.Error{Status: 404, Code: wire.LateNotFound, Message: "No late result of such a job is kept"}
	}
	return err
}

func (c *Control) ops(w http.ResponseWriter, r *http.Request) error {
	ops, err := c.Queue.Ops(r.Context())
	if err != nil {
		return err
	}
	return write(w, wire.OpsResponse{SubmissionEnabled: &ops.Submission, DequeueEnabled: &ops.Dequeue})
}

func (c *Control) setOps(w http.ResponseWriter, r *http.Request) error {
	var req wire.OpsResponse
	if err := httpd.ReadJSON(w, r, wire.MaxSmallBody, &req, httpd.BodyOptions{}); err != nil {
		return err
	}
	ops, err := c.Queue.SetOps(r.Context(), req.SubmissionEnabled, req.DequeueEnabled)
	if err != nil {
		return err
	}
	c.Log.InfoContext(r.Context(), "switches set", "submission_enabled", ops.Submission, "dequeue_enabled", ops.Dequeue, "remote", r.RemoteAddr)
	return write(w, wire.OpsResponse{SubmissionEnabled: &ops.Submission, DequeueEnabled: &ops.Dequeue})
}

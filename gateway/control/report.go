package control

import (
	"context"
	"net/http"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
)

var (
	recorded      = []byte(`{"ok":true,"idempotent":false}`)
	recordedAgain = []byte(`{"ok":true,"idempotent":true}`)
)

func (c *Control) result(w http.ResponseWriter, r *http.Request) error {
	var (
		body   gateway.ResultAsk
		result queue.Result
		lease  string
	)
	id, bad := parseID(r.PathValue("id"))
	a, err := c.read(r.Context(), w, r, gateway.MaxResultBody, &body, &body.WorkerID, func() (err error) {
		if bad != nil {
			return bad
		}
		if result, err = resultOf(&body); err != nil {
			return err
		}
		lease, err = leaseOf(r, body.LeaseID)
		return err
	})
	if err != nil {
		return err
	}
	defer a.release()
	// What has arrived whole is recorded even if the worker does not wait for the
	// answer.
	ctx, cancel := c.deadline(context.WithoutCancel(r.Context()))
	defer cancel()
	rec, late, err := finish(ctx, c.Queue, a.Caller, id, lease, result)
	switch {
	case late:
		c.Metrics.late.Inc()
		c.Log.WarnContext(ctx, "late result kept aside", "job", id, "lease", lease, "kept", c.Queue.LateTTL)
		return &keptError{c.Queue.LateTTL}
	case err != nil:
		return err
	case rec.Again:
		writeJSON(w, http.StatusOK, recordedAgain)
		return nil
	}
	c.Metrics.finished(rec)
	writeJSON(w, http.StatusOK, recorded)
	return nil
}

func (c *Control) failed(w http.ResponseWriter, r *http.Request) error {
	var (
		body    gateway.FailedAsk
		failure queue.Failure
		lease   string
	)
	id, bad := parseID(r.PathValue("id"))
	a, err := c.read(r.Context(), w, r, gateway.MaxFailedBody, &body, &body.WorkerID, func() (err error) {
		if bad != nil {
			return bad
		}
		if failure, err = failureOf(&body); err != nil {
			return err
		}
		lease, err = leaseOf(r, body.LeaseID)
		return err
	})
	if err != nil {
		return err
	}
	defer a.release()
	ctx, cancel := c.deadline(context.WithoutCancel(r.Context()))
	defer cancel()
	fate, err := c.Queue.Fail(ctx, a.Caller, id, lease, failure)
	if err != nil {
		return err
	}
	if !fate.Again {
		c.Metrics.failed(fate)
		if failure.Rerun == queue.Back {
			c.waiting.wake(1)
		}
	}
	return write(w, failedAnswer(fate))
}

package control

import (
	"context"
	"net/http"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
)

var (
	recorded      = []byte("{\"ok\":true,\"idempotent\":false}\n")
	recordedAgain = []byte("{\"ok\":true,\"idempotent\":true}\n")
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
		c.Metrics.failures.WithLabelValues(fateOf(fate)).Inc()
		c.logFailure(ctx, id, failure.Code, fate)
		if failure.Rerun == queue.Back {
			c.waiting.wake(1)
		}
	}
	return write(w, failedAnswer(fate))
}

// logFailure logs a line for each run that has failed. What the worker says of it
// is in the job's record.
func (c *Control) logFailure(ctx context.Context, id jobs.ID, code string, fate queue.Fate) {
	if fate.Dead {
		c.buried(ctx, id, code, fate.Retries)
		return
	}
	c.Log.InfoContext(ctx, "job failed", "job", id, "code", code, "fate", fateOf(fate), "retries", fate.Retries)
}

// buried logs that a job has become a dead letter.
func (c *Control) buried(ctx context.Context, id jobs.ID, code string, retries int) {
	c.Log.WarnContext(ctx, "job is a dead letter", "job", id, "code", code, "retries", retries)
}

package control

import (
	"context"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

var (
	recorded      = []byte("{\"ok\":true,\"idempotent\":false}\n")
	recordedAgain = []byte("{\"ok\":true,\"idempotent\":true}\n")
)

// report is what a worker says of a job that it has a lease on.
type report struct {
	ask
	job   jobs.ID
	lease string
}

// readReport is read for a report: worker and lease are fields of dst.
func (c *Control) readReport(w http.ResponseWriter, r *http.Request, limit int64, dst any, worker, lease *string, check func() error) (rep report, err error) {
	id, bad := parseID(r.PathValue("id"))
	rep.job = id
	rep.ask, err = c.read(w, r, limit, dst, worker, func() (err error) {
		if bad != nil {
			return bad
		}
		if err := check(); err != nil {
			return err
		}
		rep.lease, err = leaseOf(r, *lease)
		return err
	})
	return rep, err
}

func (c *Control) heartbeat(w http.ResponseWriter, r *http.Request) error {
	var (
		body  gateway.HeartbeatAsk
		tells queue.Beat
		wait  time.Duration
	)
	rep, err := c.readReport(w, r, gateway.MaxSmallBody, &body, &body.WorkerID, &body.LeaseID, func() (err error) {
		tells, wait, err = beat(&body)
		return err
	})
	if err != nil {
		return err
	}
	extended, waited, err := c.extend(r.Context(), &rep, tells, wait)
	if err != nil {
		return err
	}
	c.Metrics.heartbeats.Inc()
	return write(w, heartbeatAnswer(rep.lease, extended, waited))
}

func (c *Control) result(w http.ResponseWriter, r *http.Request) error {
	var (
		body   gateway.ResultAsk
		result queue.Result
	)
	rep, err := c.readReport(w, r, gateway.MaxResultBody, &body, &body.WorkerID, &body.LeaseID, func() (err error) {
		result, err = resultOf(&body)
		return err
	})
	if err != nil {
		return err
	}
	defer rep.release()
	// What has arrived whole is recorded even if the worker does not wait for the
	// answer.
	ctx, cancel := c.deadline(context.WithoutCancel(r.Context()))
	defer cancel()
	rec, late, err := finish(ctx, c.Queue, rep.Caller, rep.job, rep.lease, result)
	switch {
	case late:
		c.Metrics.late.Inc()
		c.Log.WarnContext(ctx, "late result kept aside", "job", rep.job, "lease", rep.lease, "kept", c.Queue.LateTTL)
		return &keptError{c.Queue.LateTTL}
	case err != nil:
		return err
	case rec.Again:
		httpd.WriteJSON(w, http.StatusOK, recordedAgain)
		return nil
	}
	c.Metrics.finished(rec)
	httpd.WriteJSON(w, http.StatusOK, recorded)
	return nil
}

func (c *Control) failed(w http.ResponseWriter, r *http.Request) error {
	var (
		body    gateway.FailedAsk
		failure queue.Failure
	)
	rep, err := c.readReport(w, r, gateway.MaxFailedBody, &body, &body.WorkerID, &body.LeaseID, func() (err error) {
		failure, err = failureOf(&body)
		return err
	})
	if err != nil {
		return err
	}
	defer rep.release()
	ctx, cancel := c.deadline(context.WithoutCancel(r.Context()))
	defer cancel()
	fate, err := c.Queue.Fail(ctx, rep.Caller, rep.job, rep.lease, failure)
	if err != nil {
		return err
	}
	if !fate.Again {
		c.Metrics.failures.WithLabelValues(fateOf(fate)).Inc()
		c.logFailure(ctx, rep.job, failure.Code, fate)
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

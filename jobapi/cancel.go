package jobapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

const (
	// maxCancelBody is the largest body of a cancel, which has no content.
	maxCancelBody = 64 << 10
	// cancelWait is how long a cancel waits for its worker.
	cancelWait = 5 * time.Second
)

// cancel stops a job, and waits until its worker has stopped it.
func (c *scope) cancel(w http.ResponseWriter, r *http.Request) error {
	id, _, err := target(r)
	if err != nil {
		return err
	}
	if err := httpd.ReadJSON(w, r, maxCancelBody, &struct{}{}, httpd.BodyOptions{AllowEmpty: true, Clean: shown}); err != nil {
		return err
	}
	job, err := c.stop(r, id)
	if err != nil {
		return err
	}
	if !job.Status.Terminal() {
		m, err := c.wait(r, id, cancelWait, (*snapshot).ended)
		if err == nil {
			job = m.job
		} // otherwise the cancel is recorded all the same, and job is as of then
	}
	status := http.StatusOK
	switch {
	case job.Status == jobs.Canceled:
	case job.Status.Terminal():
		return hasEnded(job)
	default:
		status = http.StatusAccepted
	}
	return answer(w, status, struct {
		ID         string     `json:"jobId"`
		Status     jobs.State `json:"status"`
		CanceledAt Time       `json:"canceledAt"`
	}{id, job.Status, job.FinishedAt})
}

// stop asks for a job to be stopped.
func (c *scope) stop(r *http.Request, id string) (*Job, error) {
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	job, err := c.Jobs.Cancel(ctx, id)
	if err == nil || errors.Is(err, ErrEnded) {
		callOf(r).job = id // otherwise it may be anything
	}
	if errors.Is(err, ErrEnded) {
		ended, err := c.get(r.Context(), id)
		if err != nil {
			return nil, err
		}
		return nil, hasEnded(ended)
	}
	return &job, ofJob(err)
}

func hasEnded(job *Job) error {
	return &Refusal{
		Status: http.StatusConflict, Code: CodeConflict, Message: "The job has ended already: " + job.Status.String(),
		Details: map[string]any{"status": job.Status.String()},
	}
}

package jobapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// Retrier is a Jobs whose failed jobs can be run again.
type Retrier interface {
	Jobs
	// Retry queues a job that has failed as if it had just been submitted, under its id, and
	// returns it as it is then. The error wraps [fs.ErrNotExist] when there is no such job,
	// or [ErrNotFailed].
	Retry(ctx context.Context, id string) (Job, error)
}

// ErrNotFailed means that a job cannot be run again because it has not failed.
var ErrNotFailed = errors.New("job has not failed")

// retry queues a failed job again.
func (c *scope) retry(retrier Retrier) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, _, err := target(r)
		if err != nil {
			return err
		}
		if err := httpd.ReadJSON(w, r, maxCancelBody, &struct{}{}, httpd.BodyOptions{AllowEmpty: true, Clean: shown}); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), retryTimeout)
		defer cancel()
		job, err := retrier.Retry(ctx, id)
		if err == nil || errors.Is(err, ErrNotFailed) {
			callOf(r).job = id
		}
		if errors.Is(err, ErrNotFailed) {
			now, err := c.get(r.Context(), id)
			if err != nil {
				return err
			}
			return &Refusal{
				Status: http.StatusConflict, Code: CodeConflict, Message: "Only a job that has failed can run again; this one " + now.Status.Verb() + " " + now.Status.String(),
				Details: map[string]any{"status": now.Status.String()},
			}
		}
		if err != nil {
			return ofJob(err)
		}
		return answer(w, http.StatusAccepted, struct {
			ID     string     `json:"jobId"`
			Status jobs.State `json:"status"`
		}{id, job.Status})
	}
}

// retryTimeout is for a job that is recorded, and its message published.
const retryTimeout = 3 * callTimeout

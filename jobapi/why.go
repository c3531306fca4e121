package jobapi

import (
	"context"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// Explainer is a Jobs that tells why a job does not run, or who runs it.
type Explainer interface {
	// Why returns the reasons, the one to act on first, in at most three round trips to the store.
	// A job that has ended has one of [WhyEnded]. The error wraps [fs.ErrNotExist] when there is no such job.
	Why(ctx context.Context, id string) ([]Reason, error)
}

// Reason is why a job is as it is.
type Reason struct {
	Code    string `json:"code"`             // one of the codes below
	Message string `json:"message"`          // a sentence, with what to do if something is wrong
	Ahead   *int   `json:"ahead,omitempty"`  // of WhyQueued: how many jobs come before it, if that is known
	Worker  string `json:"worker,omitempty"` // its name
	Since   Time   `json:"since"`            // null where it is not known
	Until   Time   `json:"until"`            // null where it is not known
}

// The codes of reasons.
const (
	WhyQueued         = "QUEUED"          // behind other jobs, or next
	WhyNoWorker       = "NO_WORKER"       // no live worker runs its kind
	WhyNoSlot         = "NO_SLOT"         // those that do have no free slot
	WhyDraining       = "DRAINING"        // all those that do are draining, or leasing is switched off
	WhyPaused         = "PAUSED"          // its kind is paused
	WhyDelayed        = "DELAYED"         // until a time: of its submission, or after a failed attempt
	WhyLeased         = "LEASED"          // it runs: by a worker, until a time unless that extends the lease
	WhySilent         = "WORKER_SILENT"   // it runs, but nothing was heard of its worker
	WhyMessageMissing = "MESSAGE_MISSING" // it is queued on record, but no message may exist: retry publishes it again
	WhyEnded          = "ENDED"           // it has succeeded, failed or was canceled
)

// Ended returns the reason of a job that has ended, with its error if it has one.
func Ended(state jobs.State, e *Error, at time.Time) Reason {
	message := "It has " + state.String() + "."
	switch {
	case state == jobs.Canceled:
		message = "It was canceled."
	case state == jobs.Failed && e != nil:
		message = "It has failed: " + e.Code + ": " + ShownText(e.Message, 500)
	}
	return Reason{Code: WhyEnded, Message: message, Since: At(at)}
}

// why answers why a job is as it is.
func (c *scope) why(e Explainer) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, _, err := target(r)
		if err != nil {
			return err
		}
		return c.server.shared.answer(w, r, func(ctx context.Context) (any, error) {
			job, err := c.get(ctx, id)
			if err != nil {
				return nil, err
			}
			reasons, err := e.Why(ctx, id)
			if reasons == nil {
				reasons = []Reason{}
			}
			return struct {
				ID      string     `json:"jobId"`
				Status  jobs.State `json:"status"`
				Reasons []Reason   `json:"reasons"`
			}{id, job.Status, reasons}, ofJob(err)
		})
	}
}

package worker

import (
	"context"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// discardTime bounds deleting what ended attempts have left.
const discardTime = 10 * time.Second

// discard deletes what the attempts of a job have stored. The job has ended, in the
// given state, without success. What cannot be deleted now stays.
func (a *attempt) discard(ctx context.Context, state jobs.State) {
	h, ok := a.handler.(Discarder)
	if !ok || state == jobs.Succeeded {
		return
	}
	call, cancel := context.WithTimeout(ctx, discardTime)
	defer cancel()
	if err := h.Discard(call, a.lease.Job); err != nil {
		a.Log.WarnContext(ctx, "cannot delete what earlier attempts have left", "job", a.lease.Job.ID, "err", err)
	}
}

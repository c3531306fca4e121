package operations

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// wait waits until all jobs have ended. How they have is the result, not this
// job's failure. It fails when Redis has forgotten some and the others have ended.
func (o *submitBatch) wait(ctx context.Context, r engine.Run) (string, error) {
	var changed time.Time // when a status last did, or Redis was away
	err := poll(ctx, o.every(), r, func(ctx context.Context) (bool, error) {
		did, err := o.ask(ctx)
		if did || err != nil {
			changed = time.Now()
		}
		if err != nil {
			return false, err
		}
		ended, unknown := 0, 0
		for _, s := range o.sent {
			switch {
			case s.Status.Terminal():
				ended++
			case s.Status == 0:
				unknown++
			}
		}
		// A worker that gets the message records the job again; while others change
		// workers may still come to it.
		forgotten := time.Since(changed) > o.retryFor
		said := fmt.Sprintf("%d of %s ended", ended, jobs.Count(len(o.sent), "job"))
		if unknown > 0 {
			word := map[bool]string{false: "unknown", true: "forgotten"}[forgotten]
			said += fmt.Sprintf(", %d %s", unknown, word)
		}
		r.Message(said)
		if forgotten && unknown > 0 && ended+unknown == len(o.sent) {
			return false, o.forgotten(r, unknown)
		}
		return ended == len(o.sent), nil
	})
	if err != nil {
		return "", err
	}
	res := resultOf(o.sent)
	r.Result(res)
	return fmt.Sprintf("%d succeeded, %d failed, %d canceled", res.Succeeded, res.Failed, res.Canceled), nil
}

// ask notes the statuses of the jobs that have not ended, and reports whether one
// has changed. The status of a job without a record is zero.
func (o *submitBatch) ask(ctx context.Context) (changed bool, err error) {
	var open []jobs.ID
	for _, s := range o.sent {
		if !s.Status.Terminal() {
			open = append(open, s.JobID)
		}
	}
	now := map[jobs.ID]jobs.State{}
	for ids := range slices.Chunk(open, status.MaxList) {
		entries, err := o.d.Status.Entries(ctx, ids)
		if err != nil {
			return false, err
		}
		for _, e := range entries {
			now[e.ID] = e.State()
		}
	}
	for i := range o.sent {
		s := &o.sent[i]
		if state := now[s.JobID]; !s.Status.Terminal() && state != s.Status {
			s.Status, changed = state, true
		}
	}
	return changed, nil
}

// forgotten is the failure of a batch with n jobs that have no record in Redis.
func (o *submitBatch) forgotten(r engine.Run, n int) error {
	for i, s := range o.sent {
		if s.Status == 0 {
			r.Logf("job %s of objects[%d] is forgotten", s.JobID, i)
		}
	}
	res := resultOf(o.sent)
	return &engine.Failure{
		Code: "JOBS_FORGOTTEN",
		Details: map[string]any{
			"submitted": res.Submitted, "succeeded": res.Succeeded, "failed": res.Failed, "canceled": res.Canceled, "forgotten": n,
		},
		Err: fmt.Errorf("%d of %s are forgotten, as when Redis has lost its keys: the log names them; once the queue is empty, submit those again that have no results/JOB/result.json", n, jobs.Count(len(o.sent), "job")),
	}
}

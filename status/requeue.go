package status

import (
	"context"
	"fmt"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Requeue makes a job that has failed as if it had just been submitted: queued,
// with fresh counts of attempts and crashes. It returns the state it found. If
// that is Failed, or 0 for none, the job is now queued again; in any other state
// nothing was changed.
//
// A job found Queued may be one whose message never left: a caller that was
// stopped between Requeue and publishing does both again.
func (s *Store) Requeue(ctx context.Context, job jobs.Job) (jobs.State, error) {
	now := time.Now().UnixMilli()
	doc := Document{Status: words[jobs.Queued], Message: MessageQueued}.text()
	args := append([]any{ttlSeconds, doc, "queued again after a failure", s.LogCap, now, paramsText(job)}, s.jobFields(job)...)
	what := fmt.Sprintf("requeue job %s", job.ID)
	got, err := s.run(ctx, what, requeueScript, jobKeys(job.ID), args...)
	if err != nil {
		return 0, err
	}
	word := got.Text(0)
	m := move{id: job.ID, state: jobs.Queued, created: got.Number(1), others: []jobs.State{jobs.Failed, jobs.Running}, kind: string(job.Kind), count: count{cameIn, 1}}
	_ = s.move(ctx, m) // unless nothing was changed
	if state := stateOf(word); state != 0 || word == "" {
		return state, nil
	}
	return 0, unavailable(what, got.Unexpected())
}

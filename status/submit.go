package status

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// ErrEnded says that a job cannot be canceled because it has ended.
var ErrEnded = errors.New("job has ended")

// Submit records a job as queued. It reports false, and changes nothing, if the
// job is known already, whatever its state.
func (s *Store) Submit(ctx context.Context, job jobs.Job) (bool, error) {
	created := createdAt(job, time.Now())
	doc := Document{Status: words[jobs.Queued], Message: MessageQueued}.text()
	args := append([]any{ttlSeconds, doc, created, paramsText(job)}, s.jobFields(job)...)
	list := func(pipe redis.Pipeliner) {
		for _, key := range []string{indexKey, stateIndexKey(jobs.Queued)} {
			pipe.ZAddNX(ctx, key, redis.Z{Score: float64(created * 1000), Member: string(job.ID)})
			trim(ctx, pipe, key)
		}
	}
	got, err := submitScript.Run(ctx, beside{s.rdb, list}, []string{jobKey(job.ID), detailKey(job.ID), paramsKey(job.ID)}, args...)
	if err != nil {
		return false, unavailable(fmt.Sprintf("submit job %s", job.ID), err)
	}
	if got.Text(0) != "new" {
		_ = s.move(ctx, job.ID, stateOf(got.Text(1)), got.Number(2), jobs.Queued)
	}
	return got.Text(0) == "new", nil
}

// Cancel asks for a job to be stopped. A queued job is canceled at once and
// never starts; a running one is told within seconds, so its state is Running
// still when Cancel returns. The error wraps [fs.ErrNotExist] when nothing is
// known of the job and [ErrEnded] when it has ended already.
func (s *Store) Cancel(ctx context.Context, id jobs.ID) (jobs.State, error) {
	head, tail := Document{Status: words[jobs.Canceled], Message: messageCanceled}.halves()
	what := fmt.Sprintf("cancel job %s", id)
	got, err := s.run(ctx, what, cancelScript, jobKeys(id), ttlSeconds, head, tail, time.Now().UnixMilli(), s.LogCap) // created at that time, if nothing says when
	if err != nil {
		return 0, err
	}
	switch got.Text(0) {
	case "asked":
		return jobs.Running, nil
	case "canceled":
		_ = s.move(ctx, id, jobs.Canceled, got.Number(1), jobs.Queued, jobs.Running)
		return jobs.Canceled, nil
	case "absent":
		return 0, fmt.Errorf("%s: %w", what, fs.ErrNotExist)
	case "ended":
		state := stateOf(got.Text(2))
		_ = s.move(ctx, id, state, got.Number(1), jobs.Queued, jobs.Running)
		return state, fmt.Errorf("%s: %w", what, ErrEnded)
	}
	return 0, unavailable(what, got.Unexpected())
}

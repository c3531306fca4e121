package status

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// indexAge is how long a job stays in the index. It is longer than TTL because
// a running job renews its keys but not its place in the index.
const indexAge = 7 * 24 * time.Hour

// ErrEnded says that a job cannot be canceled because it has ended.
var ErrEnded = errors.New("job has ended")

// Submit records a job as queued. It reports false, and changes nothing, if the
// job is known already, whatever its state.
func (s *Store) Submit(ctx context.Context, job jobs.Job) (bool, error) {
	now := time.Now()
	doc := Document{Status: words[jobs.Queued], Message: messageQueued}.text()
	args := append([]any{ttlSeconds, doc}, s.jobFields(job)...)
	v, err := s.run(ctx, submitScript, []string{jobKey(job.ID), detailKey(job.ID)}, args,
		func(pipe redis.Pipeliner) { index(ctx, pipe, job.ID, now) })
	if err != nil {
		return false, unavailable(fmt.Sprintf("submit job %s", job.ID), err)
	}
	return v == int64(1), nil
}

// index puts a job into the index unless it is there, and drops what is too
// old. The index lives in a slot of its own, so this cannot be part of a script.
func index(ctx context.Context, pipe redis.Pipeliner, id jobs.ID, now time.Time) {
	pipe.ZAddNX(ctx, indexKey, redis.Z{Score: float64(now.UnixMicro()), Member: string(id)})
	pipe.ZRemRangeByScore(ctx, indexKey, "-inf", strconv.FormatInt(now.Add(-indexAge).UnixMicro(), 10))
}

// Cancel asks for a job to be stopped. A queued job is canceled at once and
// never starts; a running one is told within seconds, so its state is Running
// still when Cancel returns. The error wraps [fs.ErrNotExist] when nothing is
// known of the job and [ErrEnded] when it has ended already.
func (s *Store) Cancel(ctx context.Context, id jobs.ID) (jobs.State, error) {
	head, tail := Document{Status: words[jobs.Canceled], Message: messageCanceled}.halves()
	keys := []string{jobKey(id), claimKey(id), cancelKey(id), detailKey(id)}
	v, err := s.run(ctx, cancelScript, keys, []any{ttlSeconds, head, tail, time.Now().UnixMilli()}, nil)
	if err != nil {
		return 0, unavailable(fmt.Sprintf("cancel job %s", id), err)
	}
	switch got, _ := v.(string); {
	case got == "asked":
		return jobs.Running, nil
	case got == "canceled":
		return jobs.Canceled, nil
	case got == "absent":
		return 0, fmt.Errorf("cancel job %s: %w", id, fs.ErrNotExist)
	case strings.HasPrefix(got, "ended:"):
		return stateOf(got[len("ended:"):]), fmt.Errorf("cancel job %s: %w", id, ErrEnded)
	}
	return 0, unavailable(fmt.Sprintf("cancel job %s", id), fmt.Errorf("unexpected answer %v", v))
}

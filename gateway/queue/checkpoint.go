package queue

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// SetCheckpoint records, under the lease of an attempt, which checkpoint of a job is kept. Errors are those of [Queue.Holds].
func (q *Queue) SetCheckpoint(ctx context.Context, c Caller, id jobs.ID, lease string, a Artifact) error {
	a.Name = "checkpoint"
	return q.record(ctx, c, id, lease, checkpointKey(id), a)
}

// Checkpoint returns size and SHA-256 of the checkpoint of a job. It has none if the job has no checkpoint, or has ended.
func (q *Queue) Checkpoint(ctx context.Context, id jobs.ID) (Artifact, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	pipe := q.rdb.Pipeline()
	state, kept := pipe.HGet(ctx, statusKey(id), "status"), pipe.HGet(ctx, checkpointKey(id), "checkpoint")
	if err := redisdb.Exec(ctx, pipe); err != nil {
		return Artifact{}, unavailable("read checkpoint", err)
	}
	for _, c := range []*redis.StringCmd{state, kept} {
		if err := c.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return Artifact{}, unavailable("read checkpoint of job "+string(id), err)
		}
	}
	size, sum, _ := strings.Cut(kept.Val(), ":")
	n, err := strconv.ParseInt(size, 10, 64)
	if s := state.Val(); err != nil || s != Queued && s != Started {
		return Artifact{}, nil
	}
	return Artifact{Size: n, SHA256: sum}, nil
}

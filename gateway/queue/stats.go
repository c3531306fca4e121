package queue

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// Stats says how much there is of everything.
type Stats struct {
	Queued, Leased, Delayed, Dead int
	Oldest                        time.Time // when the job that is next was submitted; zero without one
}

// Stats counts, at a cost that does not grow with the queue.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	pipe := q.rdb.Pipeline()
	queued, leased, delayed, dead := pipe.LLen(ctx, queueKey), pipe.ZCard(ctx, indexKey), pipe.ZCard(ctx, delayKey), pipe.LLen(ctx, dlqKey)
	oldest := pipe.LIndex(ctx, queueKey, -1)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return Stats{}, unavailable("count jobs", err)
	}
	s := Stats{Queued: int(queued.Val()), Leased: int(leased.Val()), Delayed: int(delayed.Val()), Dead: int(dead.Val())}
	if id := oldest.Val(); id != "" {
		created, err := q.rdb.HGet(ctx, statusKey(jobs.ID(id)), "created_at").Result()
		s.Oldest, _ = time.Parse(time.RFC3339Nano, created)
		return s, unavailable("read the oldest job", err)
	}
	return s, nil
}

// Runnable returns how many jobs a worker could be handed now: those in the
// queue and those of the delay set whose time has come, or none while the
// operators have switched that off. It is one round trip that costs the same
// however many there are.
func (q *Queue) Runnable(ctx context.Context) (int, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	pipe := q.rdb.Pipeline()
	on := pipe.HMGet(ctx, opsKey, "dequeue_enabled")
	queued, due := pipe.LLen(ctx, queueKey), pipe.ZCount(ctx, delayKey, "-inf", unix(q.Now()))
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, unavailable("count runnable jobs", err)
	}
	if v := on.Val(); len(v) == 1 && v[0] == "0" {
		return 0, nil
	}
	return int(queued.Val() + due.Val()), nil
}

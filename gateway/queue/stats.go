package queue

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// Stats says how much there is of everything, of all kinds together.
type Stats struct {
	Queued, Leased, Delayed, Dead int
	Oldest                        time.Time // when the job that waits longest in its queue was submitted; zero without one
}

// Stats counts, at a cost that does not grow with the queues, but with the number of kinds
// that have jobs waiting or dead letters.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	pipe := q.rdb.Pipeline()
	queued, leased, delayed, dead := pipe.LLen(ctx, queueKey), pipe.ZCard(ctx, indexKey), pipe.ZCard(ctx, delayKey), pipe.LLen(ctx, dlqKey)
	oldest := []*redis.StringCmd{pipe.LIndex(ctx, queueKey, -1)}
	waiting, lettered := pipe.SMembers(ctx, queueKindsKey), pipe.SMembers(ctx, dlqKindsKey)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return Stats{}, unavailable("count jobs", err)
	}
	s := Stats{Queued: int(queued.Val()), Leased: int(leased.Val()), Delayed: int(delayed.Val()), Dead: int(dead.Val())}
	if len(waiting.Val())+len(lettered.Val()) > 0 {
		var queues, letters []*redis.IntCmd
		pipe = q.rdb.Pipeline()
		for _, kind := range waiting.Val() {
			queues = append(queues, pipe.LLen(ctx, queueOf(jobs.Kind(kind))))
			oldest = append(oldest, pipe.LIndex(ctx, queueOf(jobs.Kind(kind)), -1))
		}
		for _, kind := range lettered.Val() {
			letters = append(letters, pipe.LLen(ctx, dlqOf(jobs.Kind(kind))))
		}
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return Stats{}, unavailable("count jobs", err)
		}
		s.Queued += sum(queues)
		s.Dead += sum(letters)
	}
	var err error
	s.Oldest, err = q.oldest(ctx, oldest)
	return s, err
}

func sum(counts []*redis.IntCmd) (n int) {
	for _, c := range counts {
		n += int(c.Val())
	}
	return n
}

// oldest returns when the first of these jobs was submitted.
func (q *Queue) oldest(ctx context.Context, ids []*redis.StringCmd) (time.Time, error) {
	pipe := q.rdb.Pipeline()
	var created []*redis.StringCmd
	for _, id := range ids {
		if id.Val() != "" {
			created = append(created, pipe.HGet(ctx, statusKey(jobs.ID(id.Val())), "created_at"))
		}
	}
	if len(created) == 0 {
		return time.Time{}, nil
	}
	var first time.Time
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return first, unavailable("read the oldest job", err)
	}
	for _, c := range created {
		if t, err := time.Parse(time.RFC3339Nano, c.Val()); err == nil && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first, nil
}

// Runnable returns how many jobs of each kind a worker could be handed now: those in the
// queues, or none while the operators have switched that off. Kinds that have none are not
// looked at. Delayed jobs are not counted: see [Queue.PromoteKinds].
func (q *Queue) Runnable(ctx context.Context) (map[jobs.Kind]int, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	pipe := q.rdb.Pipeline()
	on := pipe.HMGet(ctx, opsKey, "dequeue_enabled")
	queued, kinds := pipe.LLen(ctx, queueKey), pipe.SMembers(ctx, queueKindsKey)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, unavailable("count runnable jobs", err)
	}
	if v := on.Val(); len(v) == 1 && v[0] == "0" {
		return nil, nil
	}
	counts := map[jobs.Kind]int{"": int(queued.Val())}
	if len(kinds.Val()) == 0 {
		return counts, nil
	}
	pipe = q.rdb.Pipeline()
	var queues []*redis.IntCmd
	for _, kind := range kinds.Val() {
		queues = append(queues, pipe.LLen(ctx, queueOf(jobs.Kind(kind))))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, unavailable("count runnable jobs", err)
	}
	for i, kind := range kinds.Val() {
		counts[jobs.Kind(kind)] = int(queues[i].Val())
	}
	return counts, nil
}

package queue

import "context"

// Runnable returns how many jobs a worker could be handed now: those in the
// queue and those of the delay set whose time has come, or none while the
// operators have switched that off. It is one round trip that costs the same
// however many there are.
func (q *Queue) Runnable(ctx context.Context) (int, error) {
	ctx, cancel := bounded(ctx)
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

package status

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// DrainWithin is how long after SetDraining a worker may still begin a job: it
// looks every 5 s, its look may take 5 s, and a job that it was handed just before
// has yet to be claimed.
const DrainWithin = 15 * time.Second

// SetDraining asks all workers to take no more jobs, or to take them again, and
// reports whether that was not so already. What is asked for has no expiry. Workers
// finish the jobs in hand, and see it within [DrainWithin].
func (s *Store) SetDraining(ctx context.Context, on bool) (changed bool, err error) {
	if !on {
		n, err := s.rdb.Del(ctx, drainKey).Result()
		return n > 0, unavailable("end draining", err)
	}
	err = s.rdb.SetArgs(ctx, drainKey, time.Now().UTC().Format(time.RFC3339Nano), redis.SetArgs{Mode: "NX"}).Err()
	return err == nil, unavailable("set draining", err)
}

// Draining returns since when workers are asked to take no more jobs, as the text
// of a time that tells one drain from the next; an empty one if they are not.
func (s *Store) Draining(ctx context.Context) (since string, err error) {
	since, err = s.rdb.Get(ctx, drainKey).Result()
	return since, unavailable("read draining", err)
}

// Ready is Check and Draining in one round trip, for workers.
func (s *Store) Ready(ctx context.Context) (draining bool, err error) {
	pipe := s.rdb.Pipeline()
	check(ctx, pipe)
	asked := pipe.Exists(ctx, drainKey)
	_, err = pipe.Exec(ctx)
	return asked.Val() > 0, unavailable("check redis", err)
}

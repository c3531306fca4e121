package status

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
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

// Holder is a job that is held by a live claim.
type Holder struct {
	Job    jobs.ID
	Worker string        // who holds it
	Left   time.Duration // how long the claim still holds
}

// MaxHeld is how many holders one call of Held returns at most.
const MaxHeld = 10_000

// Held returns the running jobs whose claim is live, in no order: not those whose
// worker ended without a word, once their claim is over. It reads the index of
// running jobs in pages of 1000, and mends it where it is wrong; a job that begins
// while it reads may be missed.
func (s *Store) Held(ctx context.Context) ([]Holder, error) {
	held, known := []Holder{}, map[string]bool{}
	for page, err := range redisdb.Members(ctx, s.rdb, stateIndexKey(jobs.Running)) {
		if err != nil {
			return nil, unavailable("read running jobs", err)
		}
		seen, err := s.read(ctx, page)
		if err != nil {
			return nil, err
		}
		var wrong []string
		for i, m := range page {
			switch r := seen[i]; {
			case r.err != nil:
				return nil, unavailable("read claim of job "+m, r.err)
			case r.left > 0 && !known[m] && len(held) < MaxHeld:
				known[m] = true
				held = append(held, Holder{jobs.ID(m), r.Detail.Worker, r.left})
			case r.left > 0:
			case r.found == nothing, r.found == readable && r.State() != jobs.Running:
				wrong = append(wrong, m)
			}
		}
		_ = s.mend(ctx, wrong)
		if len(held) == MaxHeld {
			break
		}
	}
	return held, nil
}

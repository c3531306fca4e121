package status

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
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
		if err != nil {
			return false, unavailable("end draining", err)
		}
		return n > 0, nil
	}
	err = s.rdb.SetArgs(ctx, drainKey, time.Now().UTC().Format(time.RFC3339Nano), redis.SetArgs{Mode: "NX"}).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, unavailable("set draining", err)
	}
	return err == nil, nil
}

// Draining returns since when workers are asked to take no more jobs, as the text
// of a time that tells one drain from the next; an empty one if they are not.
func (s *Store) Draining(ctx context.Context) (since string, err error) {
	since, err = s.rdb.Get(ctx, drainKey).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", unavailable("read draining", err)
	}
	return since, nil
}

// Ready is Check and Draining in one round trip, for workers.
func (s *Store) Ready(ctx context.Context) (draining bool, err error) {
	var asked *redis.IntCmd
	_, err = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		check(ctx, pipe)
		asked = pipe.Exists(ctx, drainKey)
		return nil
	})
	if err != nil {
		return false, unavailable("check redis", err)
	}
	return asked.Val() > 0, nil
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
	for cursor := uint64(0); ; {
		var page []string
		var err error
		page, cursor, err = s.scan(ctx, stateIndexKey(jobs.Running), cursor)
		if err != nil {
			return nil, err
		}
		var wrong []string
		holders, err := s.holders(ctx, page)
		if err != nil {
			return nil, err
		}
		for i, m := range page {
			switch h := holders[i]; {
			case h.Left <= 0:
				wrong = append(wrong, m) // perhaps: its claim may be between two workers
			case !known[m] && len(held) < MaxHeld:
				known[m] = true
				held = append(held, h)
			}
		}
		_ = s.mendWrong(ctx, wrong, jobs.Running)
		if cursor == 0 || len(held) == MaxHeld {
			return held, nil
		}
	}
}

// holders returns who holds jobs; without time left when nobody does.
func (s *Store) holders(ctx context.Context, members []string) ([]Holder, error) {
	if len(members) == 0 {
		return nil, nil
	}
	claims := make([]*redis.SliceCmd, len(members))
	workers := make([]*redis.StringCmd, len(members))
	var clock *redis.TimeCmd
	_, err := s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		clock = pipe.Time(ctx)
		for i, m := range members {
			claims[i] = pipe.HMGet(ctx, claimKey(jobs.ID(m)), "token", "until")
			workers[i] = pipe.HGet(ctx, detailKey(jobs.ID(m)), "worker")
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, unavailable("read claims", err)
	}
	found := make([]Holder, len(members))
	for i, m := range members {
		if err := claims[i].Err(); err != nil {
			return nil, unavailable("read claim of job "+m, err)
		}
		found[i] = Holder{Job: jobs.ID(m), Worker: workers[i].Val(), Left: claimLeft(claims[i].Val(), clock.Val())}
	}
	return found, nil
}

// claimLeft reads how long a claim holds from its fields token and until.
func claimLeft(fields []any, now time.Time) time.Duration {
	if len(fields) < 2 || fields[0] == nil {
		return 0
	}
	until, _ := fields[1].(string)
	ms, err := strconv.ParseInt(until, 10, 64)
	if err != nil {
		return 0
	}
	return time.UnixMilli(ms).Sub(now)
}

// mendWrong mends those members of the index of a state that are in another one.
func (s *Store) mendWrong(ctx context.Context, members []string, state jobs.State) error {
	seen, err := s.read(ctx, members)
	if err != nil {
		return err
	}
	var wrong []string
	for i, r := range seen {
		if r.found == nothing || r.found == readable && r.State() != state {
			wrong = append(wrong, members[i])
		}
	}
	return s.mend(ctx, wrong)
}

// scanCount is how many members of an index one round trip reads, about.
const scanCount = 1000

// scan reads a part of an index.
func (s *Store) scan(ctx context.Context, key string, cursor uint64) (members []string, next uint64, err error) {
	pairs, next, err := s.rdb.ZScan(ctx, key, cursor, "", scanCount).Result()
	if err != nil {
		return nil, 0, unavailable(fmt.Sprintf("read %s", key), err)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		members = append(members, pairs[i])
	}
	return members, next, nil
}

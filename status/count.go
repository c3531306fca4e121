package status

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// Counts are the numbers of all jobs.
type Counts struct {
	States map[jobs.State]int
	Kinds  []KindCount // by name: those that have jobs queued or running
	Total  Flow        // since the data of Redis began
	Hours  []Flow      // the last 24 and the current one, oldest first; without those that had no jobs
}

// KindCount counts the jobs of a kind that have not ended.
type KindCount struct {
	Kind            jobs.Kind // UnknownKind also for jobs whose kind is not on record, or is no name
	Queued, Running int
	Oldest          time.Time // when the queued job that waits longest was created; zero without one
}

// maxRunning is how many running jobs are counted by their kinds: the newest.
const maxRunning = 1000

// Count counts the jobs, in two round trips. Of running jobs the newest 1000 are counted by kind, and of kinds the
// 500 that had a job queued last. Where the longest queued job of a kind is no longer known, it takes it out of
// the index, in more.
func (s *Store) Count(ctx context.Context) (Counts, error) {
	pipe := s.rdb.Pipeline()
	clock, flow, kinds := pipe.Time(ctx), pipe.HGetAll(ctx, flowKey), listKinds(ctx, pipe)
	running := pipe.ZRevRange(ctx, stateIndexKey(jobs.Running), 0, maxRunning-1)
	cards := make([]*redis.IntCmd, len(states))
	for i, state := range states {
		cards[i] = pipe.ZCard(ctx, stateIndexKey(state))
	}
	if err := redisdb.Exec(ctx, pipe); err != nil {
		return Counts{}, unavailable("count jobs", err)
	}
	c := Counts{States: map[jobs.State]int{}}
	for i, state := range states {
		c.States[state] = int(cards[i].Val())
	}
	now := clock.Val()
	c.Total, c.Hours = parseFlow(flow.Val(), now)
	var err error
	c.Kinds, err = s.countKinds(ctx, kinds.Val(), running.Val(), now)
	return c, err
}

// countKinds is the second round trip of Count.
func (s *Store) countKinds(ctx context.Context, kinds, running []string, now time.Time) ([]KindCount, error) {
	if len(kinds)+len(running) == 0 {
		return nil, nil
	}
	pipe := s.rdb.Pipeline()
	queued, first, of := make([]*redis.IntCmd, len(kinds)), make([]*redis.ZSliceCmd, len(kinds)), make([]*redis.StringCmd, len(running))
	for i, kind := range kinds {
		queued[i], first[i] = pipe.ZCard(ctx, kindIndexKey(kind)), pipe.ZRangeWithScores(ctx, kindIndexKey(kind), 0, 0)
	}
	for i, id := range running {
		of[i] = pipe.HGet(ctx, detailKey(jobs.ID(id)), "kind")
	}
	if err := redisdb.Exec(ctx, pipe); err != nil {
		return nil, unavailable("count jobs by kind", err)
	}
	byKind := map[string]*KindCount{}
	at := func(kind string) *KindCount {
		kind = indexedKind(kind)
		if byKind[kind] == nil {
			byKind[kind] = &KindCount{Kind: jobs.Kind(kind)}
		}
		return byKind[kind]
	}
	var old []string
	for i, kind := range kinds {
		n := int(queued[i].Val())
		if n == 0 {
			continue
		}
		k := at(kind)
		k.Queued = n
		if z := first[i].Val(); len(z) > 0 {
			if k.Oldest = time.UnixMicro(int64(z[0].Score)).UTC(); now.Sub(k.Oldest) > TTL {
				old = append(old, kindIndexKey(kind))
			}
		}
	}
	for i := range running {
		at(of[i].Val()).Running++
	}
	_ = s.forgetOld(ctx, old) // the next count is right
	counted := make([]KindCount, 0, len(byKind))
	for _, k := range byKind {
		counted = append(counted, *k)
	}
	slices.SortFunc(counted, func(a, b KindCount) int { return cmp.Compare(a.Kind, b.Kind) })
	return counted, nil
}

// oldLooks is how many of the longest queued jobs of a kind are looked at, if the first may be forgotten.
const oldLooks = 200

// forgetOld takes those of the longest queued jobs out of the given indexes that are no longer known or queued.
func (s *Store) forgetOld(ctx context.Context, keys []string) error {
	for _, key := range keys {
		members, err := s.rdb.ZRange(ctx, key, 0, oldLooks-1).Result()
		if err != nil {
			return unavailable("read "+key, err)
		}
		seen, err := s.read(ctx, members)
		if err != nil {
			return err
		}
		var wrong []string
		for i, r := range seen {
			if r.found == nothing || r.found == readable && r.State() != jobs.Queued {
				wrong = append(wrong, members[i])
			}
		}
		if err := s.repair(ctx, wrong); err != nil {
			return err
		}
	}
	return nil
}

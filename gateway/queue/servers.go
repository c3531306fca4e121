package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// Server is a worker that has registered.
type Server struct {
	Worker, Name, RegisteredAt string // the last in RFC 3339: when it got its newest token
	Tokens                     int    // that are good: neither revoked nor expired
	Leases                     int    // that it holds
}

// Servers returns registered workers from number offset on, those first whose
// newest token is the newest, and how many there are. The limit must be positive.
// It takes four round trips, and one more for every thousand leases there are.
func (q *Queue) Servers(ctx context.Context, offset, limit int) (list []Server, total int, err error) {
	if limit < 1 {
		return nil, 0, fmt.Errorf("list workers: limit %d is not positive", limit)
	}
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	now := unix(q.Now())
	pipe := q.rdb.TxPipeline()
	pipe.ZRemRangeByScore(ctx, workersKey, "-inf", now) // their records are gone
	ids, count := pipe.ZRevRange(ctx, workersKey, int64(offset), int64(offset+limit-1)), pipe.ZCard(ctx, workersKey)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, 0, unavailable("list workers", err)
	}
	if len(ids.Val()) == 0 {
		return nil, int(count.Val()), nil
	}
	records := make([]*redis.SliceCmd, len(ids.Val()))
	tokens := make([]*redis.StringSliceCmd, len(records))
	pipe = q.rdb.Pipeline()
	for i, id := range ids.Val() {
		records[i], tokens[i] = pipe.HMGet(ctx, workerKey(id), "name", "registered_at"), pipe.SMembers(ctx, workerTokensKey(id))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, 0, unavailable("read workers", err)
	}
	leases, err := q.leasesByWorker(ctx)
	if err != nil {
		return nil, 0, err
	}
	good, err := q.goodTokens(ctx, tokens)
	if err != nil {
		return nil, 0, err
	}
	for i, id := range ids.Val() {
		f := redisdb.Reply(records[i].Val())
		list = append(list, Server{Worker: id, Name: f.Text(0), RegisteredAt: f.Text(1), Tokens: good[i], Leases: leases[id]})
	}
	return list, int(count.Val()), nil
}

// goodTokens counts the good ones of each list of hashes.
func (q *Queue) goodTokens(ctx context.Context, lists []*redis.StringSliceCmd) ([]int, error) {
	type token struct {
		of      int
		expires *redis.StringCmd
		revoked *redis.BoolCmd
	}
	var all []token
	pipe := q.rdb.Pipeline()
	for i, list := range lists {
		for _, hash := range list.Val() {
			all = append(all, token{i, pipe.HGet(ctx, tokenKey(hash), "expires_at"), pipe.SIsMember(ctx, revokedKey, hash)})
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, unavailable("read tokens of workers", err)
	}
	good := make([]int, len(lists))
	for _, t := range all {
		if t.expires.Err() == nil && t.revoked.Err() == nil && !t.revoked.Val() && parseUnix(t.expires.Val()).After(q.Now()) {
			good[t.of]++
		}
	}
	return good, nil
}

// leasesByWorker counts leases. It reads a thousand at a time, so that Redis
// serves others in between; one that moves meanwhile may be missed.
func (q *Queue) leasesByWorker(ctx context.Context) (map[string]int, error) {
	const page = 1000
	count := map[string]int{}
	for at := int64(0); ; at += page {
		ids, err := q.rdb.ZRange(ctx, indexKey, at, at+page-1).Result()
		if err != nil {
			return nil, unavailable("list leases", err)
		}
		pipe := q.rdb.Pipeline()
		holders := make([]*redis.StringCmd, len(ids))
		for i, id := range ids {
			holders[i] = pipe.HGet(ctx, leaseKey(jobs.ID(id)), "worker_id")
		}
		if err := redisdb.Exec(ctx, pipe); err != nil {
			return nil, unavailable("read leases", err)
		}
		for _, h := range holders {
			if h.Err() == nil {
				count[h.Val()]++
			}
		}
		if len(ids) < page {
			return count, nil
		}
	}
}

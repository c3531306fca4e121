package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// Watch asks for the right to look for silent workers, which one worker has at a
// time, and keeps it for the time of ttl if it is this one's; with a ttl of 0 it
// leaves that to others. If it is another's, free is how long that one's still lasts.
// The clock is the server's, by which claims end.
func (s *Store) Watch(ctx context.Context, ttl time.Duration) (mine bool, clock time.Time, free time.Duration, err error) {
	v, err := s.run(ctx, watchScript, []string{watchKey}, []any{s.ID, ttl.Milliseconds()}, nil)
	if err != nil {
		return false, time.Time{}, 0, unavailable("watch the fleet", err)
	}
	a, _ := v.([]any)
	got := redisdb.Answer(a)
	return got.Number(0) == 1, time.UnixMilli(got.Number(1)), time.Duration(got.Number(2)) * time.Millisecond, nil
}

// The marks of the scripts on a token: see job.lua.
const (
	gone   = "!" // before a token: taken away from a silent worker
	nobody = "-" // instead of one
)

// Lapsed returns the claims that are over while nobody gave them back, as far as
// their lease can be handed back by others and was not yet; and how long the next
// claim holds unless it is prolonged, an hour if there is none. It reads the index of
// running jobs in pages of 1000, so it costs what runs, and not what there is.
func (s *Store) Lapsed(ctx context.Context) (lapsed []jobs.Claim, next time.Duration, err error) {
	next = time.Hour
	for cursor := uint64(0); ; {
		var page []string
		page, cursor, err = s.scan(ctx, stateIndexKey(jobs.Running), cursor)
		if err != nil {
			return nil, 0, err
		}
		claims := make([]*redis.SliceCmd, len(page))
		var clock *redis.TimeCmd
		_, err = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			clock = pipe.Time(ctx)
			for i, m := range page {
				claims[i] = pipe.HMGet(ctx, claimKey(jobs.ID(m)), "token", "until", "ack", "queue")
			}
			return nil
		})
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") && !errors.Is(err, redis.Nil) {
			return nil, 0, unavailable("read claims", err)
		}
		for i, m := range page {
			f := redisdb.Answer(claims[i].Val())
			if f.Text(0) == "" || f.Text(0) == nobody || f.Text(2) == "" {
				continue
			}
			if left := claimLeft(f, clock.Val()); left > 0 {
				next = min(next, left)
				continue
			}
			lapsed = append(lapsed, jobs.Claim{
				Job: jobs.ID(m), Token: strings.TrimPrefix(f.Text(0), gone), Ack: f.Text(2), Queue: f.Text(3),
			})
		}
		if cursor == 0 {
			return lapsed, next, nil
		}
	}
}

// Lapse takes a claim that Lapsed has returned away from its worker, which can write
// nothing more under it. It reports false, and changes nothing, if the claim was
// prolonged, given back or granted to somebody else in the meantime. Call it again
// with handed once the lease is handed back: Lapsed does not return the claim then.
func (s *Store) Lapse(ctx context.Context, c jobs.Claim, handed bool) (bool, error) {
	arg := "0"
	if handed {
		arg = "1"
	}
	v, err := s.run(ctx, lapseScript, []string{claimKey(c.Job)}, []any{c.Token, arg}, nil)
	if err != nil {
		return false, unavailable(fmt.Sprintf("take the claim of job %s", c.Job), err)
	}
	return v == int64(1), nil
}

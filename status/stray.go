package status

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// Stray is a job that has not ended and that no live claim holds: it waits for a
// message to be delivered, or there is none and it waits for nothing.
type Stray struct {
	Entry
	Since time.Time // its last sign of life: a change of its status, or the end of its claim
}

// Job returns what a message says of the job, as far as it is on record.
func (e Entry) Job() jobs.Job {
	d := e.Detail
	return jobs.Job{ID: e.ID, Kind: d.Kind, Input: d.Input, Pages: d.Asked, Submitted: d.Submitted, Trace: d.Trace}
}

// MaxStrays is how many jobs of an index one call of Strays looks at.
const MaxStrays = 50_000

// Strays shows visit the strays of the index, those that were created first at the
// front, and with all those that are in no index, too: for them it reads the names of
// all keys, which keeps Redis busy for a millisecond a thousand, in pieces. It reads
// jobs in pages of 1000 and looks at MaxStrays of each state in the index.
func (s *Store) Strays(ctx context.Context, all bool, visit func(Stray) error) error {
	for _, state := range []jobs.State{jobs.Running, jobs.Queued} {
		for from := int64(0); from < MaxStrays; from += scanCount {
			members, err := s.rdb.ZRange(ctx, stateIndexKey(state), from, from+scanCount-1).Result()
			if err != nil {
				return unavailable("look for strays", err)
			}
			if err := s.strays(ctx, members, visit); err != nil {
				return err
			}
			if len(members) < scanCount {
				break
			}
		}
	}
	if !all {
		return nil
	}
	return s.everyKey(ctx, "job:*", func(keys []string) error {
		members := make([]string, len(keys))
		for i, key := range keys {
			members[i] = key[len("job:"):]
		}
		indexed, err := s.indexed(ctx, members)
		if err != nil {
			return err
		}
		var rest []string
		for i, m := range members {
			if !indexed[i] {
				rest = append(rest, m)
			}
		}
		return s.strays(ctx, rest, visit)
	})
}

// strays shows visit those jobs that are strays.
func (s *Store) strays(ctx context.Context, members []string, visit func(Stray) error) error {
	if len(members) == 0 {
		return nil
	}
	claims := make([]*redis.SliceCmd, len(members))
	var clock *redis.TimeCmd
	_, err := s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		clock = pipe.Time(ctx)
		for i, m := range members {
			claims[i] = pipe.HMGet(ctx, claimKey(jobs.ID(m)), "token", "until")
		}
		return nil
	})
	if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return unavailable("look for strays", err)
	}
	seen, err := s.read(ctx, members)
	if err != nil {
		return err
	}
	for i, r := range seen {
		left := claimLeft(claims[i].Val(), clock.Val())
		if r.found != readable || r.State().Terminal() || left > 0 {
			continue
		}
		stray := Stray{Entry: r.Entry}
		stray.Since, _ = time.Parse(time.RFC3339, r.UpdatedAt) // long ago if it says nothing
		if over := clock.Val().Add(left); left < 0 && over.After(stray.Since) {
			stray.Since = over
		}
		if err := visit(stray); err != nil {
			return err
		}
	}
	return nil
}

// MarkSent records that a job's message is about to be published again.
func (s *Store) MarkSent(ctx context.Context, id jobs.ID) error {
	_, err := s.rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.HSet(ctx, detailKey(id), "sent_at", time.Now().UnixMilli())
		pipe.HIncrBy(ctx, detailKey(id), "sent_times", 1)
		pipe.Expire(ctx, detailKey(id), TTL)
		return nil
	})
	if err != nil {
		return unavailable(fmt.Sprintf("mark job %s", id), err)
	}
	return nil
}

// Look asks whether it is time to look for jobs that Redis has forgotten: it is
// once after each LookDone, and the settle time after Redis was restarted or has
// failed over, which it may have done without what it wrote last. One caller in the
// fleet is told so; if it does not call LookDone, another is after the time of hold.
// Lost is when such a loss was noticed that nobody has looked for yet; zero if there
// was none.
func (s *Store) Look(ctx context.Context, hold, settle time.Duration) (mine bool, lost time.Time, err error) {
	v, err := s.run(ctx, dueScript, []string{repairKey}, []any{hold.Milliseconds(), settle.Milliseconds(), ttlSeconds}, nil)
	if err != nil {
		return false, time.Time{}, unavailable("ask for a repair", err)
	}
	a, _ := v.([]any)
	if ms := answer(a).number(1); ms > 0 {
		lost = time.UnixMilli(ms)
	}
	return answer(a).number(0) == 1, lost, nil
}

// LookDone says that a look has ended, and that the next one comes after a time. The
// loss that it has looked for, if any, is dealt with.
func (s *Store) LookDone(ctx context.Context, next time.Duration, lost time.Time) error {
	done := int64(0)
	if !lost.IsZero() {
		done = lost.UnixMilli()
	}
	_, err := s.run(ctx, lookedScript, []string{repairKey}, []any{next.Milliseconds(), done}, nil)
	if err != nil {
		return unavailable("end a repair", err)
	}
	return nil
}

// everyKey shows visit the keys that match, of all nodes of a cluster, page by page; some
// may come twice.
func (s *Store) everyKey(ctx context.Context, match string, visit func(keys []string) error) error {
	scan := func(ctx context.Context, node redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.ScanType(ctx, cursor, match, scanCount, "string").Result()
			if err != nil {
				return unavailable("read the names of keys", err)
			}
			if err := visit(keys); err != nil || next == 0 {
				return err
			}
			cursor = next
		}
	}
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return scan(ctx, s.rdb)
	}
	var mu sync.Mutex
	var nodes []*redis.Client // they are asked at once; visit is called by one at a time
	err := cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	if err != nil {
		return unavailable("ask the nodes of the cluster", err)
	}
	for _, node := range nodes {
		if err := scan(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// indexed reports which jobs are in the index.
func (s *Store) indexed(ctx context.Context, members []string) ([]bool, error) {
	is := make([]bool, len(members))
	if len(members) == 0 {
		return is, nil
	}
	scores := make([]*redis.FloatCmd, len(members))
	_, err := s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, m := range members {
			scores[i] = pipe.ZScore(ctx, indexKey, m)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, unavailable("read index", err)
	}
	for i, score := range scores {
		is[i] = score.Err() == nil
	}
	return is, nil
}

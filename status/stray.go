package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
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
// all keys, which keeps Redis busy for a millisecond a thousand, in pieces. It looks at
// MaxStrays of each state in the index. Visit gets those of a page of 1000 jobs at a
// time, often none.
func (s *Store) Strays(ctx context.Context, all bool, visit func([]Stray) error) error {
	seen := map[string]bool{}
	for _, state := range []jobs.State{jobs.Running, jobs.Queued} {
		// All names at once: visit changes the ranks.
		members, err := s.rdb.ZRange(ctx, stateIndexKey(state), 0, MaxStrays-1).Result()
		if err != nil {
			return unavailable("look for strays", err)
		}
		for page := range slices.Chunk(members, redisdb.ScanCount) {
			if err := s.strays(ctx, page, visit); err != nil {
				return err
			}
			for _, m := range page {
				seen[m] = all
			}
		}
	}
	if !all {
		return nil
	}
	return s.everyJob(ctx, func(members []string) error {
		members = slices.DeleteFunc(members, func(m string) bool { return seen[m] })
		return s.strays(ctx, members, visit)
	})
}

// strays shows visit those jobs that are strays.
func (s *Store) strays(ctx context.Context, members []string, visit func([]Stray) error) error {
	seen, err := s.read(ctx, members)
	if err != nil {
		return err
	}
	var found []Stray
	for _, r := range seen {
		if r.found != readable || r.State().Terminal() || r.left > 0 {
			continue
		}
		stray := Stray{Entry: r.Entry}
		stray.Since, _ = time.Parse(time.RFC3339, r.UpdatedAt) // long ago if it says nothing
		if over := r.now.Add(r.left); r.left < 0 && over.After(stray.Since) {
			stray.Since = over
		}
		found = append(found, stray)
	}
	return visit(found)
}

// MarkSent records that a job's message was published again, or refused.
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

// Look reports whether a repair round is due and, if so, reserves it for this caller
// for hold. A round is due at the time set by LookDone, and settle after Redis was
// restarted or failed over. Lost is when such a loss was noticed that no round has
// dealt with yet; zero if there was none.
func (s *Store) Look(ctx context.Context, hold, settle time.Duration) (mine bool, lost time.Time, err error) {
	runs, err := s.runs(ctx)
	if err != nil {
		return false, time.Time{}, err
	}
	got, err := s.run(ctx, "ask for a repair", dueScript, []string{repairKey}, hold.Milliseconds(), settle.Milliseconds(), ttlSeconds, runs)
	if ms := got.Number(1); ms > 0 {
		lost = time.UnixMilli(ms)
	}
	return got.Number(0) == 1, lost, err
}

// LookDone sets when the next repair round is due. With done the loss that this one
// has looked for, if any, is dealt with; otherwise it stays on record. Where Redis has
// lost something again since then, nothing changes: that round comes first.
func (s *Store) LookDone(ctx context.Context, next time.Duration, lost time.Time, done bool) error {
	ms := int64(0)
	if !lost.IsZero() {
		ms = lost.UnixMilli()
	}
	_, err := s.run(ctx, "schedule a repair", lookedScript, []string{repairKey}, next.Milliseconds(), ms, done)
	return err
}

// runs returns the ids that the servers, all primaries of a cluster, have had since
// they were started; empty for one that does not say.
func (s *Store) runs(ctx context.Context) (string, error) {
	nodes, err := s.primaries(ctx)
	if err != nil {
		return "", err
	}
	var runs []string
	for _, node := range nodes {
		info, err := node.Info(ctx, "server").Result()
		if err != nil && !errors.As(err, new(redis.Error)) {
			return "", unavailable("ask for the run of Redis", err)
		}
		_, id, _ := strings.Cut(info, "run_id:")
		id, _, _ = strings.Cut(id, "\r\n")
		runs = append(runs, id)
	}
	slices.Sort(runs)
	return strings.Join(runs, " "), nil
}

// primaries returns the server, or all primaries of a cluster.
func (s *Store) primaries(ctx context.Context) (nodes []redis.Cmdable, err error) {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return []redis.Cmdable{s.rdb}, nil
	}
	var mu sync.Mutex // they are asked at once
	err = cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	if err != nil {
		return nil, unavailable("ask the nodes of the cluster", err)
	}
	return nodes, nil
}

// everyJob shows visit the names of all jobs, page by page; some may come twice.
func (s *Store) everyJob(ctx context.Context, visit func(members []string) error) error {
	nodes, err := s.primaries(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		for keys, err := range redisdb.Scan(ctx, func(ctx context.Context, cursor uint64) *redis.ScanCmd {
			return node.ScanType(ctx, cursor, "job:*", redisdb.ScanCount, "string")
		}) {
			if err != nil {
				return unavailable("read the names of keys", err)
			}
			for i := range keys {
				keys[i] = keys[i][len("job:"):]
			}
			if err := visit(keys); err != nil {
				return err
			}
		}
	}
	return nil
}

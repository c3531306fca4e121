package status

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// Stray is a job that has not ended and that no live claim holds: it waits for a
// message to be delivered, or there is none and it waits for nothing.
type Stray struct {
	Entry
	Since time.Time // its last sign of life: a change of its status, the end of its claim, or when its next attempt is due
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
	seen, err := s.read(ctx, members, heldFields...)
	if err != nil {
		return err
	}
	var found []Stray
	for _, r := range seen {
		if r.found != readable || r.State().Terminal() || r.left > 0 {
			continue
		}
		found = append(found, Stray{Entry: r.Entry, Since: r.lastSign()})
	}
	return visit(found)
}

// lastSign returns when a job that waits gave its last sign of life.
func (r *record) lastSign() time.Time {
	since, _ := time.Parse(time.RFC3339, r.UpdatedAt) // long ago if it says nothing
	if next := r.Detail.Next; next.After(since) {
		since = next // until then it waits for its next attempt
	}
	if over := r.now.Add(r.left); r.left < 0 && over.After(since) {
		since = over
	}
	return since
}

// EnterAgain enters those jobs where they belong that have not ended and are not in the index
// of their state, as when Redis has lost how a job ended and its worker entered it as ended
// after that: then Strays finds them. It reads the names of all keys, as Strays does, and
// calls looking with each page of them.
func (s *Store) EnterAgain(ctx context.Context, looking func()) error {
	return s.everyJob(ctx, func(members []string) error {
		looking()
		looks, err := s.looks(ctx, members)
		if err != nil {
			return err
		}
		var wrong []string
		for i, l := range looks {
			submitted := !l.Created.IsZero() // otherwise somebody else has written the document
			if l.found == readable && !l.State().Terminal() && (l.gone && submitted || l.kind == misplaced || l.kind == missing) {
				wrong = append(wrong, members[i])
			}
		}
		return s.repair(ctx, wrong)
	})
}

// MarkSent records that a job's message was published again, or refused.
func (s *Store) MarkSent(ctx context.Context, id jobs.ID) error {
	pipe := s.rdb.TxPipeline()
	pipe.HSet(ctx, detailKey(id), "sent_at", time.Now().UnixMilli())
	pipe.HIncrBy(ctx, detailKey(id), "sent_times", 1)
	pipe.Expire(ctx, detailKey(id), TTL)
	_, err := pipe.Exec(ctx)
	return unavailable(fmt.Sprintf("mark job %s", id), err)
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

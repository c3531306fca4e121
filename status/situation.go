package status

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// Situation is what is known of a job and of what it may wait for.
type Situation struct {
	Entry
	Now time.Time // by Redis's clock
	// Until is when the claim of the job is over unless its worker goes on; in the past once it is over, and zero
	// without one.
	Until time.Time
	Heard time.Time // when its worker last reported; zero if that is not known
	// Quiet is since when a queued job has given no sign of life: its status has not changed, and no attempt is due.
	Quiet time.Time

	Workers  []Worker  // as Store.Workers has them
	Draining time.Time // since when the whole fleet takes no jobs; zero if it does
	Paused   time.Time // since when the kind of the job is paused; zero if it is not
	Ahead    int       // queued jobs of its kind that were created before it; of all kinds if its own is not known
}

// Situation returns what a job waits for, in two round trips, or one if it is not queued. The error wraps
// [fs.ErrNotExist] when there is no such job.
func (s *Store) Situation(ctx context.Context, id jobs.ID) (Situation, error) {
	var workers func() []Worker
	var draining *redis.StringCmd
	var paused *redis.MapStringStringCmd
	seen, err := s.readBeside(ctx, []string{string(id)}, func(pipe redis.Pipeliner) {
		workers, draining, paused = listWorkers(ctx, pipe), pipe.Get(ctx, drainKey), pipe.HGetAll(ctx, pausedKey)
	}, heldFields...)
	if err != nil {
		return Situation{}, err
	}
	r := seen[0]
	if r.found != readable {
		return Situation{}, fmt.Errorf("job %s: %w", id, fs.ErrNotExist)
	}
	got := Situation{Entry: r.Entry, Now: r.now.UTC(), Quiet: r.lastSign(), Workers: workers()}
	if r.left != 0 {
		got.Until = r.now.Add(r.left).UTC()
	}
	if r.silent > 0 {
		got.Heard = r.now.Add(-r.silent).UTC()
	}
	got.Draining, _ = time.Parse(time.RFC3339Nano, draining.Val())
	got.Paused = momentOf(paused.Val()[indexedKind(string(r.Detail.Kind))])
	if got.State() == jobs.Queued {
		got.Ahead, err = s.ahead(ctx, r.Entry)
	}
	return got, err
}

// ahead returns how many queued jobs were created before one.
func (s *Store) ahead(ctx context.Context, e Entry) (int, error) {
	key := kindIndexKey(string(e.Detail.Kind))
	if indexedKind(string(e.Detail.Kind)) == string(UnknownKind) {
		key = stateIndexKey(jobs.Queued)
	}
	n, err := s.rdb.ZCount(ctx, key, "-inf", fmt.Sprintf("(%d", e.Created.UnixMilli()*1000)).Result()
	return int(n), unavailable("count queued jobs", err)
}

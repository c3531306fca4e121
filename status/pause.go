package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// Paused is a kind that is paused.
type Paused struct {
	Kind  jobs.Kind
	Since time.Time
}

// maxPaused is how many kinds may be paused at once. Each worker reads all of them every 5 s.
const maxPaused = 1000

// ErrManyPaused means that too many kinds are paused.
var ErrManyPaused = errors.New("too many kinds are paused")

// Pause asks all workers to begin no job of a kind, and to hand back those that they get. A kind that is paused already
// stays so, and no expiry ends it. Workers follow with their next report of themselves: within 10 s. The error wraps [ErrManyPaused].
func (s *Store) Pause(ctx context.Context, kind jobs.Kind) error {
	what := fmt.Sprintf("pause kind %.40q", string(kind))
	got, err := s.run(ctx, what, pauseScript, []string{pausedKey}, string(kind), maxPaused)
	if err == nil && got.Number(0) == 0 {
		return fmt.Errorf("%s: %w: at most %d may be", what, ErrManyPaused, maxPaused)
	}
	return err
}

// Resume ends a pause, and reports whether there was one.
func (s *Store) Resume(ctx context.Context, kind jobs.Kind) (bool, error) {
	n, err := s.rdb.HDel(ctx, pausedKey, string(kind)).Result()
	return n > 0, unavailable(fmt.Sprintf("resume kind %.40q", string(kind)), err)
}

// Paused returns the kinds that are paused, by name.
func (s *Store) Paused(ctx context.Context) ([]Paused, error) {
	all, err := s.rdb.HGetAll(ctx, pausedKey).Result()
	if err != nil {
		return nil, unavailable("list paused kinds", err)
	}
	paused := make([]Paused, 0, len(all))
	for kind, since := range all {
		paused = append(paused, Paused{jobs.Kind(kind), momentOf(since)})
	}
	slices.SortFunc(paused, func(a, b Paused) int { return cmp.Compare(a.Kind, b.Kind) })
	return paused, nil
}

// HasKind reports whether there is, or was within a week, a queued job of a kind.
func (s *Store) HasKind(ctx context.Context, kind jobs.Kind) (bool, error) {
	err := s.rdb.ZScore(ctx, kindsKey, string(kind)).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, unavailable(fmt.Sprintf("look for kind %.40q", string(kind)), err)
}

// momentOf returns the time that a number of ms since 1970 stands for; zero for anything else.
func momentOf(ms string) time.Time {
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

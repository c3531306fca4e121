package status

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	feedLength = 10_000 // entries that are kept, about
	// feedIDs is how many ids an entry has at most.
	feedIDs = 100
	// feedRead is how many entries one call reads at most.
	feedRead = 200
	// feedWait is how long a call waits in Redis. The client cannot end a wait before, so it is short.
	feedWait  = 2 * time.Second
	feedField = "jobs"
	feedStart = "0-0" // before the first entry of a stream
)

// MaxChanges is how many ids one call of [Store.Changes] returns at most.
const MaxChanges = 200

// publish adds jobs to the feed.
func publish(ctx context.Context, pipe redis.Pipeliner, ids []string) (cmds []redis.Cmder) {
	for part := range slices.Chunk(ids, feedIDs) {
		cmds = append(cmds, pipe.XAdd(ctx, &redis.XAddArgs{
			Stream: feedKey, MaxLen: feedLength, Approx: true, Values: []any{feedField, strings.Join(part, " ")},
		}))
	}
	return cmds
}

var feedPosition = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{1,20}-[0-9]{1,20}$`) })

// Changes returns the ids of jobs that were made or have changed their state, worker or attempt after a position of the
// feed, oldest change first, and the position behind them. An id may come more than once. It waits until there are
// some; when ctx ends, it returns none, the position and no error, within 2 s if ctx has no deadline. The empty position is the present: then it returns at
// once. lost is true when changes after the position are no longer kept, or it is no position; next is then the present.
//
// It uses one connection of the pool while it waits.
func (s *Store) Changes(ctx context.Context, after string) (ids []string, next string, lost bool, err error) {
	if !feedPosition().MatchString(after) {
		next, err = s.present(ctx)
		return nil, next, after != "", err
	}
	for {
		ids, next, lost, err = s.changes(ctx, after)
		if err != nil && ctx.Err() != nil {
			return nil, after, false, nil //nolint:nilerr // that it ends is no error
		}
		if err != nil || lost || len(ids) > 0 || ctx.Err() != nil {
			return ids, next, lost, err
		}
		after = next
	}
}

// present returns the position behind the last entry.
func (s *Store) present(ctx context.Context) (string, error) {
	last, err := s.rdb.XRevRangeN(ctx, feedKey, "+", "-", 1).Result()
	if err != nil {
		return "", unavailable("read changes", err)
	}
	if len(last) == 0 {
		return feedStart, nil
	}
	return last[0].ID, nil
}

// changes is one read: of what is there or, if there is nothing, of what comes within feedWait.
func (s *Store) changes(ctx context.Context, after string) (ids []string, next string, lost bool, err error) {
	pipe := s.rdb.Pipeline()
	known, length := pipe.XRange(ctx, feedKey, after, after), pipe.XLen(ctx, feedKey)
	there := pipe.XRangeN(ctx, feedKey, "("+after, "+", feedRead)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, after, false, unavailable("read changes", err)
	}
	// The entry of a position goes with those that are too old, or with all the data.
	if len(known.Val()) == 0 && (after != feedStart || length.Val() >= feedLength) {
		next, err = s.present(ctx)
		return nil, next, true, err
	}
	entries := there.Val()
	if len(entries) == 0 {
		streams, err := s.rdb.XRead(ctx, &redis.XReadArgs{Streams: []string{feedKey, after}, Count: feedRead, Block: feedWait}).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, after, false, unavailable("wait for changes", err)
		}
		for _, stream := range streams {
			entries = append(entries, stream.Messages...)
		}
	}
	next = after
	for _, e := range entries {
		text, _ := e.Values[feedField].(string)
		more := strings.Fields(text)
		more = more[:min(len(more), MaxChanges)] // another program may have written here
		if len(ids)+len(more) > MaxChanges {
			break
		}
		ids, next = append(ids, more...), e.ID
	}
	return ids, next, false, nil
}

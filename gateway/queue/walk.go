package queue

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/redisdb"
)

// walkSet gives the members of a sorted set to page: see [redisdb.Members].
func (f *fsck) walkSet(ctx context.Context, key string, page func(ids []string) error) error {
	for ids, err := range redisdb.Members(ctx, f.q.rdb, key) {
		if err != nil {
			return fmt.Errorf("%s: %w", key, unavailable("read", err))
		}
		if err := page(ids); err != nil {
			return err
		}
	}
	return nil
}

// walkList gives the entries of a list to page, from its head on, each once. New
// entries at the head move those behind towards the tail; how far, tells the last
// entry of a page, which the next page begins with.
func (f *fsck) walkList(ctx context.Context, key string, page func(ids []string) error) error {
	last := ""
	for at := int64(0); ; {
		first := max(0, at-1)
		var ids []string
		err := f.call(ctx, func(ctx context.Context) (err error) {
			ids, err = f.q.rdb.LRange(ctx, key, first, at+redisdb.ScanCount-1).Result()
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		full := len(ids) == int(at+redisdb.ScanCount-first)
		at = first + int64(len(ids))
		if last != "" {
			ids = ids[slices.Index(ids, last)+1:]
		}
		if len(ids) > 0 {
			last = ids[len(ids)-1]
			if err := page(ids); err != nil {
				return err
			}
		}
		if !full {
			return nil
		}
	}
}

// call bounds one command.
func (f *fsck) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, f.q.CallTimeout)
	defer cancel()
	return unavailable("read", do(ctx))
}

// pipe reads many small things at once. What is absent, or of another type than
// ours, reads as empty, and so becomes a suspect.
func (f *fsck) pipe(ctx context.Context, add func(context.Context, redis.Pipeliner)) error {
	return f.call(ctx, func(ctx context.Context) error {
		p := f.q.rdb.Pipeline()
		add(ctx, p)
		return redisdb.Exec(ctx, p)
	})
}

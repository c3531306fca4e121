package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// fsckPage is how many entries one command reads.
const fsckPage = 1000

// walkSet gives the members of a sorted set to page, some perhaps twice, none left
// out that were there all the time.
func (f *fsck) walkSet(ctx context.Context, key string, page func(ids []string) error) error {
	for cursor := uint64(0); ; {
		var pairs []string
		err := f.call(ctx, func(ctx context.Context) (err error) {
			pairs, cursor, err = f.q.rdb.ZScan(ctx, key, cursor, "", fsckPage).Result()
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		ids := make([]string, 0, len(pairs)/2)
		for i := 0; i < len(pairs); i += 2 {
			ids = append(ids, pairs[i])
		}
		if err := page(ids); err != nil || cursor == 0 {
			return err
		}
	}
}

// walkList gives the entries of a list to page, from its head on, each once. New
// entries at the head move those behind towards the tail; how far, tells the last
// entry of a page, which the next page begins with.
func (f *fsck) walkList(ctx context.Context, key string, page func(ids []string) error) error {
	last := ""
	for at := int64(0); ; {
		var ids []string
		err := f.call(ctx, func(ctx context.Context) (err error) {
			ids, err = f.q.rdb.LRange(ctx, key, max(0, at-1), at+fsckPage-1).Result()
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if len(ids) == 0 {
			return nil
		}
		first := max(0, at-1)
		full := len(ids) == int(at+fsckPage-first)
		at = first + int64(len(ids))
		if last != "" {
			for i, id := range ids {
				if id == last {
					ids = ids[i+1:]
					break
				}
			}
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
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		return unavailable("read", err)
	}
	return nil
}

// pipe reads many small things at once. What is absent, or of another type than
// ours, reads as empty, and so becomes a suspect.
func (f *fsck) pipe(ctx context.Context, add func(context.Context, redis.Pipeliner)) error {
	return f.call(ctx, func(ctx context.Context) error {
		p := f.q.rdb.Pipeline()
		add(ctx, p)
		cmds, _ := p.Exec(ctx) // returns the first error, which may be that something is absent
		for _, cmd := range cmds {
			if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
				return err
			}
		}
		return nil
	})
}

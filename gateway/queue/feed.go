package queue

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

const (
	// changesKept is how many entries of a feed are kept at least; lua/list.lua has the number, too. One has the jobs
	// that one script has changed, at most MaxBatch.
	changesKept = 10_000
	// feedWait is how long Redis holds a call for changes. A connection is taken so long.
	feedWait = 10 * time.Second
)

// feedStart is the place before all changes.
const feedStart = "0-0"

// placeForm is the form of a place in a feed.
var placeForm = jobs.Form(`^\d{1,20}-\d{1,20}$`)

// Changes returns the jobs of kind zpe, or of all other kinds, that were submitted or have changed their state, worker
// or attempt after a place in their feed, those that changed first before the others, and the place behind them. A job
// may come more than once. There are at most the given number, or as many as one script has changed. It waits until there
// are some; when ctx ends it returns none, the same place and no error.
//
// The empty place is the present: the call returns at once. lost is true when changes after the place are not kept any
// more, and for what is no place; next is then the present. It takes two round trips each time that there are changes, and
// two in 10 s without any.
func (q *Queue) Changes(ctx context.Context, others bool, after string, most int) (ids []jobs.ID, next string, lost bool, err error) {
	key := changesKey(others)
	if !placeForm().MatchString(after) {
		next, err = q.present(ctx, key)
		return nil, next, after != "", err
	}
	for {
		list, err := q.readFeed(ctx, key, after, most)
		if ctx.Err() != nil {
			return nil, after, false, nil //nolint:nilerr // whoever has asked has left
		}
		if err != nil {
			return nil, after, false, err
		}
		// Asked after the read: if nothing had gone then, nothing had gone before.
		switch kept, err := q.keptSince(ctx, key, after); {
		case err != nil && ctx.Err() == nil:
			return nil, after, false, err
		case err != nil:
			return nil, after, false, nil //nolint:nilerr // whoever has asked has left
		case !kept:
			next, err = q.present(ctx, key)
			return nil, next, true, err
		}
		if ids, next = changesOf(list, most); next != "" {
			return ids, next, false, nil
		}
	}
}

// present returns the place behind all changes.
func (q *Queue) present(ctx context.Context, key string) (string, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	last, err := q.rdb.XRevRangeN(ctx, key, "+", "-", 1).Result()
	if len(last) == 0 {
		return feedStart, unavailable("read changes", err)
	}
	return last[0].ID, nil
}

// readFeed waits for entries after a place, not longer than feedWait.
func (q *Queue) readFeed(ctx context.Context, key, after string, most int) ([]redis.XMessage, error) {
	type answer struct {
		list []redis.XMessage
		err  error
	}
	got := make(chan answer, 1)
	// In a goroutine of its own, because the client of Redis does not hear that ctx was canceled. It ends within feedWait.
	go func() {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), feedWait+q.CallTimeout)
		defer cancel()
		streams, err := q.rdb.XRead(call, &redis.XReadArgs{Streams: []string{key, after}, Count: int64(most), Block: feedWait}).Result()
		a := answer{err: unavailable("read changes", err)}
		if len(streams) == 1 {
			a.list = streams[0].Messages
		}
		got <- a
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case a := <-got:
		return a.list, a.err
	}
}

// keptSince reports whether all changes after a place are kept: entries go from the oldest on, so they are if that of the
// place is.
func (q *Queue) keptSince(ctx context.Context, key, after string) (bool, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	if after == feedStart {
		n, err := q.rdb.XLen(ctx, key).Result()
		return n < changesKept, unavailable("read changes", err)
	}
	at, err := q.rdb.XRange(ctx, key, after, after).Result()
	return len(at) > 0, unavailable("read changes", err)
}

// changesOf returns the jobs of the first entries, and the place behind these.
func changesOf(list []redis.XMessage, most int) (ids []jobs.ID, next string) {
	for _, entry := range list {
		text, _ := entry.Values["ids"].(string) // one that another program has added has none
		names := strings.Fields(text)
		if next != "" && len(ids)+len(names) > most {
			break
		}
		for _, name := range names {
			ids = append(ids, jobs.ID(name))
		}
		next = entry.ID
	}
	return ids, next
}
